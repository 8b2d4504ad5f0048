import Collections

/// The spans that wait for the collector, each as JSON. The oldest spans form a batch, which stays the same until the
/// collector has answered.
struct SpanQueue {
    private(set) var batch: [[UInt8]] = []
    private var waiting = Queue<[UInt8]>()
    /// The maximum number of spans, including the batch.
    var limit: Int

    /// The maximum number of spans in a batch.
    static let batchLimit = 512
    /// The maximum number of bytes in a batch, because collectors refuse requests that are too large.
    static let batchBytes = 1 << 20

    init(limit: Int) { self.limit = limit }

    var count: Int { batch.count + waiting.count }

    /// Appends a span; a full queue drops the oldest spans outside the batch.
    ///
    /// - Returns: the number of dropped spans.
    mutating func append(_ span: [UInt8]) -> Int {
        waiting.append(span)
        var dropped = 0
        while count > limit, waiting.popFirst() != nil { dropped += 1 }
        return dropped
    }

    /// Makes the batch of the oldest spans, unless there is a batch already.
    mutating func fillBatch() {
        guard batch.isEmpty else { return }
        var bytes = 0
        while batch.count < Self.batchLimit, let next = waiting.first {
            bytes += next.count
            guard bytes <= Self.batchBytes || batch.isEmpty, let span = waiting.popFirst() else { return }
            batch.append(span)
        }
    }

    /// Removes the batch, and returns its number of spans.
    mutating func finishBatch() -> Int {
        defer { batch = [] }
        return batch.count
    }

    /// Removes all spans, and returns their number.
    mutating func removeAll() -> Int {
        defer { (batch, waiting) = ([], Queue()) }
        return count
    }
}
