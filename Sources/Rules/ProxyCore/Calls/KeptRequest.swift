import Bytes

/// The bytes of a request that waits for its answer.
///
/// The memory of a call that waits is mostly its INVITE. Those that come from one PBX differ in a few names and numbers, so
/// that of all but the latest calls only what differs from an earlier one is kept, see ``RequestPacker``.
struct KeptRequest {
    /// The request's bytes, or what they were packed into.
    private(set) var bytes: ByteString
    /// By what they were packed; `nil` when they were not.
    private var sample: RequestSample?
    private let size: UInt32

    /// How many bytes the request has.
    var count: Int { Int(size) }
    var isEmpty: Bool { size == 0 }
    var isPacked: Bool { sample != nil }

    static let empty = KeptRequest(.empty)

    /// Bytes as they stand in a message. Until ``compact()`` they keep all of that message in memory.
    init(_ bytes: ByteString) {
        self.bytes = bytes
        sample = nil
        size = UInt32(clamping: bytes.count)
    }

    /// From now on it keeps no more than its own bytes.
    mutating func compact() { if !isPacked { bytes = bytes.compacted() } }

    fileprivate mutating func pack(by sample: RequestSample, _ packing: RequestPacking) {
        // What saves less than an eighth is not worth being unpacked.
        guard let packed = packing.pack(bytes, sample.bytes, count - count / 8) else { return compact() }
        bytes = packed
        self.sample = sample
    }

    /// The request's bytes.
    func unpacked(_ packing: RequestPacking) -> ByteString {
        guard let sample else { return bytes }
        return packing.unpack(bytes, sample.bytes, count) ?? .empty
    }
}

/// A request by which others were packed. It lives as long as one of them is kept.
private final class RequestSample: Sendable {
    let bytes: ByteString

    init(_ bytes: ByteString) { self.bytes = bytes }
}

/// Packs requests, each by one that came a little earlier.
struct RequestPacker {
    private let packing: RequestPacking
    private var sample: RequestSample?
    private var uses = 0

    /// How many requests are packed by one sample. A later one is more like those that come then.
    static let usesOfSample = 1024

    init(_ packing: RequestPacking) { self.packing = packing }

    /// From now on the request takes less memory, if it is like the sample.
    mutating func pack(_ request: inout KeptRequest) {
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
