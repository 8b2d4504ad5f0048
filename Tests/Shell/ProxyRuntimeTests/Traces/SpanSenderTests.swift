import Bytes
import Foundation
import HTTPSemantics
import JSON
import LoopTesting
import OTLP
import ProviderTesting
import Reactor
import Telemetry
import Testing
import TestSupport
import Timekeeping

@testable import ProxyRuntime

/// A sender of spans on a loop, without the rest of the daemon.
private actor SpanBench {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    nonisolated let log = MemoryLogSink()
    private var sender: SpanSender?
    private var number = 0

    init(_ loop: EventLoop) { self.loop = loop }

    private func target(_ url: String) -> SpanSender.Target {
        SpanSender.Target(
            url: url, place: "collector", headers: [HTTPField("Authorization", "Bearer collector-key")],
            authority: nil, request: ExportRequest(resource: [], scope: "sippushd", version: "1"))
    }

    /// Starts a sender whose pauses are so short that tests need not wait.
    func start(_ url: String, limit: Int = 4096, batch: Duration = .milliseconds(1)) throws {
        var times = SpanSender.Times()
        times.batch = batch
        times.shortestPause = .milliseconds(1)
        times.longestPause = .milliseconds(1)
        // On a busy machine, the collector of a test may answer late.
        times.patience = .seconds(600)
        sender = try SpanSender(
            to: target(url), limit: limit, times: times, on: loop,
            log: Log(level: .notice, sink: log) { UnixTime(seconds: 0) })
    }

    /// Sends spans whose names are consecutive numbers.
    func send(_ count: Int) {
        for _ in 0..<count {
            number += 1
            sender?.send(
                TraceSpan(
                    "\(number)", .server, in: TraceID(ofCall: ByteString("c")), id: SpanID(of: ByteString("s")),
                    from: 1, to: 2))
        }
    }

    func change(to url: String) { sender?.change(to: target(url), limit: 4096) }

    func finish(within time: Duration) async {
        await withCheckedContinuation { waiter in
            guard let sender else { return waiter.resume() }
            sender.finish(within: time) { waiter.resume() }
        }
    }

    private var figures: [UInt64] { sender.map { [$0.figures[.spanSent], $0.figures[.spanDropped]] } ?? [] }

    /// Waits until the sender has counted `sent` and `dropped` spans.
    nonisolated func expect(sent: UInt64, dropped: UInt64) async throws {
        while await figures != [sent, dropped] {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    func release() { sender = nil }
}

extension FakeProvider.Request {
    /// The names of the spans of the request.
    fileprivate var names: [Int] {
        let spans = (try? JSONValue(Array(body.utf8)))?["resourceSpans"]?.array?.first?["scopeSpans"]?.array?.first
        return spans?["spans"]?.array?.compactMap { $0["name"]?.string.flatMap { Int($0) } } ?? []
    }
}

@Suite("Sending of spans", .timeLimit(.minutes(5)))
struct SpanSenderTests {
    private func with(
        _ reply: @escaping @Sendable (FakeProvider.Request, Int) -> FakeProvider.Reply,
        _ body: (SpanBench, FakeProvider, String) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let (collector, bench) = (FakeProvider(loop, reply: reply), SpanBench(loop))
            let result: Result<Void, any Error>
            do {
                result = .success(try await body(bench, collector, try await collector.listen()))
            } catch {
                result = .failure(error)
            }
            await bench.release()
            await collector.close()
            try result.get()
        }
    }

    @Test func `a full batch is sent at once, and the rest with the next batch`() async throws {
        try await with({ _, _ in .answer(200, "{}") }) { bench, collector, url in
            try await bench.start(url + "/v1/traces")
            await bench.send(SpanQueue.batchLimit + 3)
            let first = try await collector.requests.next()
            #expect(first.path == "/v1/traces" && first.text.hasPrefix("POST "))
            #expect(first.headers["content-type"] == "application/json")
            #expect(first.headers["authorization"] == "Bearer collector-key")
            #expect(first.names == Array(1...512))
            #expect(try await collector.requests.next().names == [513, 514, 515])
            try await bench.expect(sent: 515, dropped: 0)
            #expect(bench.log.lines.isEmpty)
        }
    }

    @Test func `a batch is sent again after 503, 429 and a broken connection, and counted once`() async throws {
        try await with({ _, count in
            switch count {
            case 0: .answer(503)
            case 1: .answer(429)
            case 2: .close
            default: .answer(200, "{}")
            }
        }) { bench, collector, url in
            try await bench.start(url)
            await bench.send(2)
            for _ in 0..<4 { #expect(try await collector.requests.next().names == [1, 2]) }
            try await bench.expect(sent: 2, dropped: 0)
            #expect(bench.log.lines.count == 2)
            #expect(bench.log.lines.first?.contains("spans do not reach the OTLP collector") == true)
            #expect(bench.log.lines.last?.contains("accepts spans again") == true)
        }
    }

    @Test func `refused spans are counted, and never sent again`() async throws {
        try await with({ _, count in
            count == 0 ? .answer(400, #"{"message":"no Bearer collector-key here"}"#) : .answer(200, "{}")
        }) { bench, collector, url in
            try await bench.start(url)
            await bench.send(2)
            #expect(try await collector.requests.next().names == [1, 2])
            try await bench.expect(sent: 0, dropped: 2)
            await bench.send(1)
            #expect(try await collector.requests.next().names == [3])
            try await bench.expect(sent: 1, dropped: 2)
            #expect(bench.log.lines.count == 1)
            #expect(bench.log.lines.first?.contains("refused spans") == true)
            #expect(bench.log.lines.first?.contains("collector-key") == false)
        }
    }

    @Test func `a partial success loses only the rejected spans`() async throws {
        try await with({ _, _ in
            .answer(200, #"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#)
        }) { bench, collector, url in
            try await bench.start(url)
            await bench.send(5)
            try await bench.expect(sent: 2, dropped: 3)
            #expect(bench.log.lines.first?.contains("too old") == true)
            // If the collector rejects more spans than were sent, all sent spans count as rejected.
            await bench.send(1)
            try await bench.expect(sent: 2, dropped: 4)
            #expect(await collector.requestCount() == 2)
        }
    }

    @Test func `an answer without end is cut off, and the spans are not sent again`() async throws {
        let flood = String(repeating: "x", count: 1 << 20)
        try await with({ _, count in
            count == 0 ? .bytes("HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n\(flood)") : .answer(200)
        }) { bench, collector, url in
            try await bench.start(url)
            await bench.send(1)
            try await bench.expect(sent: 0, dropped: 1)
            await bench.send(1)
            try await bench.expect(sent: 1, dropped: 1)
            #expect(try await collector.requests.next().names == [1])
            #expect(try await collector.requests.next().names == [2])
        }
    }

    @Test func `a redirect is not followed`() async throws {
        try await with({ request, _ in
            .answer(307, headers: "location: http://\(request.headers["host"] ?? "")/elsewhere\r\n")
        }) { bench, collector, url in
            try await bench.start(url + "/v1/traces")
            await bench.send(1)
            try await bench.expect(sent: 0, dropped: 1)
            #expect(await collector.requestCount() == 1)
        }
    }

    @Test func `the queue is bounded, and one line tells that spans are lost`() async throws {
        try await with({ _, _ in .silence }) { bench, collector, url in
            try await bench.start(url, limit: 1000)
            await bench.send(1600)
            try await bench.expect(sent: 0, dropped: 600)
            #expect(try await collector.requests.next().names == Array(1...512))
            // On a busy machine, the log can also have a line that the collector does not answer.
            #expect(bench.log.lines.count { $0.contains("setting=otlp.queue") } == 1)
            await bench.finish(within: .zero)
            try await bench.expect(sent: 0, dropped: 1600)
        }
    }

    @Test func `other settings take over the spans that wait, and none is sent twice`() async throws {
        try await with({ _, count in count == 0 ? .answer(200, "{}") : .silence }) { bench, old, url in
            let new = FakeProvider(bench.loop) { _, _ in .answer(200, "{}") }
            try await bench.start(url)
            await bench.send(2)
            #expect(try await old.requests.next().names == [1, 2])
            try await bench.expect(sent: 2, dropped: 0)
            await bench.send(1)
            #expect(try await old.requests.next().names == [3])
            await bench.send(1)
            await bench.change(to: try await new.listen())
            // The sender still waits for the answer to the active batch, so the new collector does not get the batch.
            #expect(await new.requestCount() == 0)
            await old.close()
            #expect(try await new.requests.next().names == [3])
            #expect(try await new.requests.next().names == [4])
            try await bench.expect(sent: 4, dropped: 0)
            await new.close()
        }
    }

    @Test func `at the end all spans that wait are sent in batches`() async throws {
        try await with({ _, _ in .answer(200, "{}") }) { bench, collector, url in
            try await bench.start(url, batch: .seconds(1000))
            await bench.send(1100)
            await bench.finish(within: .seconds(100))
            var names: [Int] = []
            for _ in 0..<3 { names += try await collector.requests.next().names }
            #expect(names == Array(1...1100))
            try await bench.expect(sent: 1100, dropped: 0)
        }
    }

    @Test func `at the end a collector that does not answer, or is away, delays nothing for longer`() async throws {
        try await with({ _, _ in .silence }) { bench, collector, url in
            try await bench.start(url, batch: .seconds(1000))
            await bench.send(3)
            await bench.finish(within: .milliseconds(1))
            try await bench.expect(sent: 0, dropped: 3)
            #expect(bench.log.lines.last?.contains("spans were lost") == true)
            await collector.close()
            try await bench.start(url, batch: .seconds(1000))
            await bench.send(3)
            // The refused connection ends the wait for the collector.
            await bench.finish(within: .seconds(100_000))
            try await bench.expect(sent: 0, dropped: 3)
            await bench.send(1)
            try await bench.expect(sent: 0, dropped: 4)
        }
    }
}
