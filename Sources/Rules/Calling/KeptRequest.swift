package import Bytes

/// The bytes of a request that waits for its final response.
///
/// INVITEs from one PBX differ only in a few names and numbers, so an older call stores only the difference from an
/// earlier INVITE (see ``RequestPacker``). A waiting call needs most of its memory for its INVITE, so packing saves
/// much memory.
package struct KeptRequest {
    /// The request's bytes, either packed or unpacked.
    package private(set) var bytes: ByteString
    /// The sample request with which the bytes were packed; `nil` for unpacked bytes.
    private var sample: RequestSample?
    private let size: UInt32

    /// The size of the unpacked request in bytes.
    package var count: Int { Int(size) }
    package var isEmpty: Bool { size == 0 }
    var isPacked: Bool { sample != nil }

    package static let empty = KeptRequest(.empty)

    /// Keeps bytes that are part of a larger buffer; the whole buffer stays in memory until ``compact()`` is called.
    package init(_ bytes: ByteString) {
        self.bytes = bytes
        sample = nil
        size = UInt32(clamping: bytes.count)
    }

    /// Copies the request's bytes into a block of their own, so that the larger buffer can be freed.
    package mutating func compact() { if !isPacked { bytes = bytes.compacted() } }

    fileprivate mutating func pack(by sample: RequestSample, _ packing: RequestPacking) {
        // Packing that saves less than an eighth is not worth the time of unpacking.
        guard let packed = packing.pack(bytes, sample.bytes, count - count / 8) else { return compact() }
        bytes = packed
        self.sample = sample
    }

    /// The request's bytes in their original form.
    package func unpacked(_ packing: RequestPacking) -> ByteString {
        guard let sample else { return bytes }
        return packing.unpack(bytes, sample.bytes, count) ?? .empty
    }
}

/// A sample request, from which packed requests store only their difference. The sample stays in memory as long as any
/// request that was packed with it.
private final class RequestSample: Sendable {
    let bytes: ByteString

    init(_ bytes: ByteString) { self.bytes = bytes }
}

/// Packs each request as its difference from a sample: the sample is a request that came a little earlier.
package struct RequestPacker {
    private let packing: RequestPacking
    private var sample: RequestSample?
    private var uses = 0

    /// The number of requests that are packed with one sample. After 1,024 requests, a new request becomes the sample
    /// for compression, because it resembles further requests more.
    static let usesOfSample = 1024

    package init(_ packing: RequestPacking) { self.packing = packing }

    /// Packs the request if it resembles the present sample, to save memory.
    package mutating func pack(_ request: inout KeptRequest) {
        guard !request.isPacked, !request.isEmpty else { return }
        guard let sample, uses < Self.usesOfSample else {
            request.compact()
            sample = RequestSample(request.bytes)
            uses = 0
            return
        }
        uses += 1
        request.pack(by: sample, packing)
    }
}
