import Addressing
import Bytes
import JSON
import LoopTesting
import Persistence
import ProviderTesting
import ProxyCore
import Reactor
import Registration
import ServiceEvents
import Telemetry
import Testing
import TestSupport
import Timekeeping

@testable import HTTPServices

/// The service of events on a loop, with a receiver whose answers the test chooses.
private actor EventBench {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    nonisolated let sink = MemoryLogSink()
    private let folder: TemporaryFolder
    private var service: EventService?
    private var settings = EventSettings()

    init(_ loop: EventLoop) throws {
        self.loop = loop
        folder = try TemporaryFolder()
        let secret = try folder.write(Array("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".utf8), to: "secret")
        settings.secretFiles = [secret]
        settings.allowsPlain = true
        settings.node = "test"
        settings.privateReceivers = [AddressBlock("127.0.0.0/8")].compactMap(\.self)
    }

    func start(_ url: String?, _ change: (inout EventSettings) -> Void = { _ in }) throws {
        settings.url = url
        change(&settings)
        let service = try EventService(
            settings, store: folder.file("store"), hasDomains: false, on: loop,
            log: Log(level: .debug, sink: sink) { UnixTime(milliseconds: 0) })
        self.service = service
        service.start()
    }

    /// Uses other settings, as the daemon does after SIGHUP.
    func change(_ url: String?) throws {
        settings.url = url
        try service?.change(to: settings)
        service?.start()
    }

    /// Notes that users have registered, in one turn of the loop.
    func note(_ users: [String]) {
        for user in users {
            service?.note(
                .deviceRegistered(
                    DeviceID(rawValue: 1),
                    of: AddressOfRecord(user: ByteString(user), host: ByteString("example.net")), isPush: true,
                    at: UnixTime(milliseconds: 0)))
        }
        service?.flush()
    }

    func figure(_ counter: Counter) -> UInt64 { service?.figures[counter] ?? 0 }
    var waiting: Int { service?.figures[.eventsWaiting] ?? 0 }
    var isOn: Bool { service?.isOn == true }
    func own(_ endpoints: [Endpoint]) { service?.ownEndpoints = { endpoints } }

    func until(_ counter: Counter, is number: UInt64) async throws {
        while figure(counter) < number {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    func close() {
        service?.close()
        service = nil
    }
}

@Suite("Sending events", .timeLimit(.minutes(10)))
struct EventServiceTests {
    private func withService(
        _ reply: @escaping @Sendable (FakeProvider.Request, Int) -> FakeProvider.Reply = { _, _ in .answer(204) },
        _ body: (EventBench, FakeProvider, String) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let receiver = FakeProvider(loop, reply: reply)
            let url = try await receiver.listen()
            let bench = try EventBench(loop)
            try await body(bench, receiver, url)
            await bench.close()
            await receiver.close()
        }
    }

    private func subjects(_ request: FakeProvider.Request) throws -> [String] {
        try #require(try JSONValue(Array(request.body.utf8)).array).compactMap { $0["subject"]?.string }
    }

    @Test func `events of one turn are one request, signed`() async throws {
        try await withService { (bench, receiver, url) async throws in
            try await bench.start(url + "/path")
            await bench.note(["a", "b"])
            let request = try await receiver.requests.next()
            #expect(try subjects(request) == ["a@example.net", "b@example.net"])
            #expect(request.path == "/path")
            #expect(request.headers["content-type"] == "application/cloudevents-batch+json")
            let id = try #require(request.headers["webhook-id"])
            #expect(id.split(separator: "-").count == 2)
            #expect(request.headers["webhook-signature"]?.hasPrefix("v1,") == true)
            try await bench.until(.eventDelivered, is: 2)
            #expect(await bench.waiting == 0)
        }
    }

    @Test(arguments: [302, 401, 410, 500])
    func `events that the receiver refuses are sent again, with the same id`(status: Int) async throws {
        try await withService({ _, count in count == 0 ? .answer(status, headers: "location: /x\r\n") : .answer(200) })
        {
            (bench, receiver, url) async throws in
            try await bench.start(url)
            await bench.note(["a"])
            let first = try await receiver.requests.next()
            let second = try await receiver.requests.next()
            #expect(first.headers["webhook-id"] == second.headers["webhook-id"] && first.body == second.body)
            try await bench.until(.eventDelivered, is: 1)
            #expect(await bench.figure(.eventRequestFailed) == 1)
            #expect(
                bench.sink.lines.contains {
                    $0.contains("the receiver of events does not accept them") && $0.contains("status \(status)")
                })
            #expect(bench.sink.lines.contains { $0.contains("the receiver of events accepts them again") })
        }
    }

    @Test func `a long answer does not take the events`() async throws {
        try await withService({ _, count in
            count == 0 ? .answer(200, String(repeating: "x", count: 70_000)) : .answer(200)
        }) {
            (bench, _, url) async throws in
            try await bench.start(url)
            await bench.note(["a"])
            try await bench.until(.eventDelivered, is: 1)
            #expect(await bench.figure(.eventRequestFailed) == 1)
        }
    }

    @Test func `one request is in flight, and the rest follows in its order`() async throws {
        try await withService { (bench, receiver, url) async throws in
            try await bench.start(url)
            await bench.note((0..<300).map { "u\($0)" })
            let first = try subjects(try await receiver.requests.next())
            let second = try subjects(try await receiver.requests.next())
            #expect(first.count == 256 && first + second == (0..<300).map { "u\($0)@example.net" })
            try await bench.until(.eventDelivered, is: 300)
        }
    }

    @Test func `the next run sends what this run did not`() async throws {
        try await withService { (bench, receiver, url) async throws in
            try await bench.start("http://127.0.0.1:1")
            await bench.note(["a", "b"])
            await bench.close()
            try await bench.start(url)
            #expect(try subjects(try await receiver.requests.next()) == ["a@example.net", "b@example.net"])
        }
    }

    @Test func `a new receiver gets the events at once, and without a receiver events wait`() async throws {
        try await withService { (bench, receiver, url) async throws in
            try await bench.start("http://127.0.0.1:1")
            await bench.note(["a"])
            try await bench.until(.eventRequestFailed, is: 1)
            try await bench.change(nil)
            #expect(await !bench.isOn)
            await bench.note(["not noted"])
            try await bench.change(url)
            #expect(try subjects(try await receiver.requests.next()) == ["a@example.net"])
        }
    }

    @Test func `our own listener gets no event`() async throws {
        try await withService { (bench, receiver, url) async throws in
            let endpoint = try #require(Endpoint(url.dropFirst("http://".count)))
            try await bench.start("http://127.0.0.1:1")
            await bench.own([endpoint])
            try await bench.change(url)
            await bench.note(["a"])
            try await bench.until(.eventRequestFailed, is: 1)
            #expect(await receiver.connectionCount == 0)
            #expect(await bench.waiting == 1)
        }
    }

    @Test func `types that the settings leave out are not written`() async throws {
        try await withService { (bench, receiver, url) async throws in
            try await bench.start(url) { $0.types = ["call.*"] }
            await bench.note(["a"])
            #expect(await bench.figure(.eventWritten) == 0)
        }
    }
}
