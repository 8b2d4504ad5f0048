package import Bytes

/// The bytes of a request that waits for its final response.
///
/// An older request stores only its difference from an earlier INVITE, because INVITEs from one PBX differ little (see
/// ``RequestPacker``).
package struct KeptRequest {
    /// The request's bytes, either packed or unpacked.
    package private(set) var bytes: ByteString
    /// The earlier INVITE with which the bytes were packed; `nil` for unpacked bytes.
    private var sample: RequestSample?
    private let size: UInt32

    /// The size of the unpacked request in bytes.
    package var count: Int { Int(size) }
    package var isEmpty: Bool { size == 0 }
    var isPacked: Bool { sample != nil }

    package static let empty = KeptRequest(.empty)

    /// Stores bytes that are a part of a larger buffer. The buffer stays in memory until ``compact()`` is called.
    package init(_ bytes: ByteString) {
        self.bytes = bytes
        sample = nil
        size = UInt32(clamping: bytes.count)
    }

    /// Copies the request's bytes into their own memory, so that the larger buffer can be freed.
    package mutating func compact() { if !isPacked { bytes = bytes.compacted() } }

    fileprivate mutating func pack(by sample: RequestSample, _ packing: RequestPacking) {
        // Packing is useless if it saves less than an eighth of the bytes.
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

/// An earlier INVITE with which later requests are packed. A ``RequestSample`` stays in memory while a packed request
/// needs it.
private final class RequestSample: Sendable {
    let bytes: ByteString

    init(_ bytes: ByteString) { self.bytes = bytes }
}

/// Packs a request as its difference from a request that came a little earlier (the sample).
package struct RequestPacker {
    private let packing: RequestPacking
    private var sample: RequestSample?
    private var uses = 0

    /// The number of requests that are packed with one sample request. After 1,024 requests, a new request becomes the
    /// sample, because further requests resemble a recent request more.
    static let usesOfSample = 1024

    package init(_ packing: RequestPacking) { self.packing = packing }

    /// Packs the request if the request resembles the present sample request.
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
