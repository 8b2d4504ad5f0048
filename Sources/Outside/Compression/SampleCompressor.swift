package import Bytes
import CLZ4

/// Compresses bytes that resemble a sample, to an LZ4 block whose dictionary is the sample.
///
/// Decompression needs the sample and the original number of bytes.
@safe package final class SampleCompressor {
    /// The maximum number of bytes from the sample's beginning that LZ4 uses as the dictionary.
    package static let sampleLimit = 4096

    /// The state of LZ4; without memory for it `nil`, so that no bytes are compressed.
    private let stream: UnsafeMutablePointer<LZ4_stream_t>?
    /// The memory for a block, before it is copied into memory of its exact length.
    private var room: [UInt8] = []

    package init() { unsafe stream = LZ4_createStream() }

    deinit { unsafe LZ4_freeStream(stream) }

    /// Compresses bytes.
    ///
    /// - Parameters:
    ///   - bytes: the bytes to compress.
    ///   - sample: bytes that resemble `bytes`, or no bytes.
    ///   - limit: the maximum length of the block.
    /// - Returns: the block; `nil` if it would be longer than `limit`.
    package func block(of bytes: ByteString, like sample: ByteString, limit: Int) -> ByteString? {
        guard let stream = unsafe stream, limit > 0, limit <= Int32.max, !bytes.isEmpty else { return nil }
        if room.count < limit { room = [UInt8](repeating: 0, count: limit) }
        let length = sample.withSpan { sample in
            bytes.withSpan { bytes in
                unsafe sample.withUnsafeBytes { sample in
                    unsafe bytes.withUnsafeBytes { bytes in
                        unsafe room.withUnsafeMutableBytes { room in
                            // Loading the dictionary also resets LZ4 after the previous block.
                            unsafe LZ4_loadDict(stream, Self.text(sample), Self.used(sample))
                            return unsafe LZ4_compress_fast_continue(
                                stream, Self.text(bytes), room.baseAddress?.assumingMemoryBound(to: CChar.self),
                                Int32(clamping: bytes.count), Int32(clamping: limit), 1)
                        }
                    }
                }
            }
        }
        guard length > 0 else { return nil }
        let written = room
        return ByteString(copying: written.span.extracting(0..<Int(length)))
    }

    /// Decompresses a block.
    ///
    /// - Parameters:
    ///   - block: the result of ``block(of:like:limit:)``.
    ///   - count: the number of original bytes.
    ///   - sample: the sample with which the block was made.
    /// - Returns: the original bytes; `nil` if the block is not valid.
    package static func bytes(of block: ByteString, count: Int, like sample: ByteString) -> ByteString? {
        guard count > 0, count <= Int32.max else { return nil }
        let storage = ByteStorage.make(capacity: count)
        let length = sample.withSpan { sample in
            block.withSpan { block in
                unsafe sample.withUnsafeBytes { sample in
                    unsafe block.withUnsafeBytes { block in
                        let bytes = unsafe UnsafeMutableRawPointer(storage.baseAddress)
                        return unsafe LZ4_decompress_safe_usingDict(
                            text(block), bytes.assumingMemoryBound(to: CChar.self),
                            Int32(clamping: block.count), Int32(clamping: count), text(sample), used(sample))
                    }
                }
            }
        }
        guard length == count else { return nil }
        return ByteString(storage: storage, start: 0, count: count)
    }

    private static func text(_ bytes: UnsafeRawBufferPointer) -> UnsafePointer<CChar>? {
        unsafe bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
    }

    private static func used(_ sample: UnsafeRawBufferPointer) -> Int32 {
        Int32(clamping: min(sample.count, sampleLimit))
    }
}
