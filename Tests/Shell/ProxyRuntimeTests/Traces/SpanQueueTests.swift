import Bytes
import OTLP
import Testing

@testable import ProxyRuntime

@Suite("Spans that wait")
struct SpanQueueTests {
    private func queue(_ count: Int, limit: Int) -> SpanQueue {
        var queue = SpanQueue(limit: limit)
        for number in 0..<count { _ = queue.append([UInt8(truncatingIfNeeded: number)]) }
        return queue
    }

    @Test func `a full queue drops its oldest spans, but not the batch`() {
        var queue = queue(600, limit: 600)
        queue.fillBatch()
        #expect(queue.batch.count == 512 && queue.count == 600)
        for _ in 0..<88 { #expect(queue.append([9]) == 1) }
        #expect(queue.count == 600)
        #expect(queue.finishBatch() == 512)
        queue.fillBatch()
        #expect(queue.batch == [[UInt8]](repeating: [9], count: 88))
    }

    @Test func `a batch stays the same until it is finished`() {
        var queue = queue(3, limit: 10)
        queue.fillBatch()
        _ = queue.append([7])
        queue.fillBatch()
        #expect(queue.batch == [[0], [1], [2]])
        #expect(queue.removeAll() == 4 && queue.count == 0 && queue.batch.isEmpty)
    }

    @Test func `a batch is limited in bytes, and a large span has a batch of its own`() {
        var queue = SpanQueue(limit: 10)
        let half = [UInt8](repeating: 1, count: SpanQueue.batchBytes / 2)
        for span in [half, half, half, half + half + half] { _ = queue.append(span) }
        var sizes: [Int] = []
        while queue.count > 0 {
            queue.fillBatch()
            sizes.append(queue.finishBatch())
        }
        #expect(sizes == [2, 1, 1])
    }

    @Test func `a smaller limit applies at the next span`() {
        var queue = queue(10, limit: 10)
        queue.limit = 4
        #expect(queue.append([1]) == 7 && queue.count == 4)
    }
}

@Suite("Sample of calls with spans")
struct SpanSamplingTests {
    private func span(_ call: Int, _ name: String = "root") -> TraceSpan {
        TraceSpan(
            name, .server, in: TraceID(ofCall: ByteString("\(call)")), id: SpanID(of: ByteString("\(call) \(name)")),
            from: 1, to: 2)
    }

    /// The first number from `number` on whose call is in the sample (`isIn` is true) or outside the sample.
    private func call(from number: Int = 0, _ sampling: SpanSampling, isIn: Bool) -> Int {
        (number...).first { sampling.has(TraceID(ofCall: ByteString("\($0)"))) == isIn } ?? -1
    }

    @Test func `about one call in ten is in the sample`() {
        let sampling = SpanSampling(oneIn: 10)
        let count = (0..<10_000).count { sampling.has(TraceID(ofCall: ByteString("\($0)"))) }
        #expect((800...1200).contains(count))
        #expect((0..<100).allSatisfy { SpanSampling(oneIn: 1).has(TraceID(ofCall: ByteString("\($0)"))) })
    }

    @Test func `a call of the sample is sent without waiting`() {
        var sampling = SpanSampling(oneIn: 10)
        let call = call(sampling, isIn: true)
        let (root, push) = (span(call), span(call, "push"))
        #expect(sampling.take([push], of: root.id) == [push])
        #expect(sampling.takeRoot(root, isFailed: false) == [root])
    }

    @Test func `a failed call outside the sample is sent whole, with later spans`() {
        var sampling = SpanSampling(oneIn: 10)
        let call = call(sampling, isIn: false)
        let (root, push, late) = (span(call), span(call, "push"), span(call, "late"))
        #expect(sampling.take([push], of: root.id).isEmpty)
        #expect(sampling.takeRoot(root, isFailed: true) == [root, push])
        #expect(sampling.take([late], of: root.id) == [late])
    }

    @Test func `a good call outside the sample is not sent, and leaves nothing`() {
        var sampling = SpanSampling(oneIn: 10)
        let call = call(sampling, isIn: false)
        let (root, push) = (span(call), span(call, "push"))
        #expect(sampling.take([push], of: root.id).isEmpty)
        #expect(sampling.takeRoot(root, isFailed: false).isEmpty)
        #expect(sampling.takeRoot(root, isFailed: true) == [root])
    }

    @Test func `calls that never end cost a fixed amount of memory`() {
        var sampling = SpanSampling(oneIn: 1_000_000)
        let first = call(sampling, isIn: false)
        var last = first
        for number in 0..<3 * SpanSampling.limit {
            last = call(from: first + number, sampling, isIn: false)
            _ = sampling.take([span(last, "push")], of: span(last).id)
        }
        #expect(sampling.waiting <= 2 * SpanSampling.limit)
        #expect(sampling.takeRoot(span(first), isFailed: true).count == 1)
        #expect(sampling.takeRoot(span(last), isFailed: true).count == 2)
    }
}
