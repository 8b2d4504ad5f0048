import Addressing
import Crypto
import Foundation
import HTTP2
import HTTPClient
import LoopTesting
import TestSupport
import Testing

@testable import HTTP2Connections
@testable import Reactor

/// A fake HTTP/2 server, and an HTTP session that sends requests to it, each on its own loop.
struct HTTP2Fixture {
    let session: HTTPSession
    let server: FakeHTTP2Server
    let request: HTTPClientRequest
    let outcomes = Mailbox<Result<HTTPClientResponse, HTTPClientError>>()

    static func with(
        streams: Int = 100, answersAll: Bool = false, limits: HTTPSession.Limits = .init(),
        _ body: (HTTP2Fixture) async throws -> Void
    ) async throws {
        try await withLoop { serverLoop in
            try await withLoop { loop in
                let identity = try TestIdentity(hosts: ["127.0.0.1", "localhost"])
                defer { identity.remove() }
                let server = FakeHTTP2Server(serverLoop, streams: streams, answersAll: answersAll)
                let url = try await server.listen(identity.context(protocols: ["h2"]))
                let session = HTTPSession(on: loop, limits: limits)
                var request = HTTPClientRequest(method: "POST", url: url + "/", body: Array("{}".utf8))
                request.route.authorityFile = identity.certificateFile
                // The timeout is longer than any test takes; a test can set another timeout.
                request.timeout = .seconds(300)
                try await body(HTTP2Fixture(session: session, server: server, request: request))
                loop.post { session.close() }
                await server.close()
            }
        }
    }

    /// Sends an HTTP request for each of the given paths, in their order. The results of the requests arrive in
    /// `outcomes`.
    func send(_ paths: String..., change: (inout HTTPClientRequest) -> Void = { _ in }) {
        for path in paths {
            var request = request
            request.url += path
            change(&request)
            session.loop.post { [session, outcomes, request] in session.send(request) { outcomes.put($0) } }
        }
    }

    func arrival() async throws -> FakeHTTP2Server.Arrival { try await server.arrivals.next() }

    /// Returns the next outcome, which must be a response.
    @discardableResult
    func answered() async throws -> HTTPClientResponse { try await outcomes.next().get() }

    /// Returns the outcome of the next request, which must be a failure.
    func failed() async throws -> HTTPClientError {
        let outcome = try await outcomes.next()
        guard case .failure(let error) = outcome else {
            return try #require(nil as HTTPClientError?, "an answer: \(outcome)")
        }
        return error
    }
}

/// A self-signed certificate in a file; the certificate is its own authority.
struct TestIdentity {
    let certificateFile: String
    let keyFile: String
    private let identity: SelfSignedCertificate
    private let folder: TemporaryFolder

    init(hosts: [String]) throws {
        identity = try SelfSignedCertificate(hosts: hosts)
        folder = try TemporaryFolder()
        certificateFile = try folder.write(identity.certificate, to: "certificate")
        keyFile = try folder.write(identity.key, to: "key")
    }

    func context(protocols: [String], clientAuthority: TestIdentity? = nil) throws -> TLSContext {
        try .server(
            certificate: .bytes(identity.certificate), key: .bytes(identity.key), protocols: protocols,
            clientAuthority: clientAuthority.map { .file($0.certificateFile) })
    }

    func remove() { folder.remove() }
}

@Suite("HTTP/2 connections of an origin", .timeLimit(.minutes(10)))
struct HTTP2OriginTests {
    // MARK: Streams

    @Test func `requests beyond the server's first limit wait in their order for its next one`() async throws {
        try await HTTP2Fixture.with(streams: 1) { fixture in
            fixture.send("0", "1", "2", "3", "4")
            let first = try await fixture.arrival()
            #expect(first.request.path == "/0")
            await fixture.server.answer(first)
            let second = try await fixture.arrival()
            #expect(second.request.path == "/1")
            await fixture.server.allow(streams: 100, on: 0)
            // Requests 2 to 4 are answered while request 1 still waits for its answer.
            for number in 2...4 {
                let next = try await fixture.arrival()
                #expect(next.request.path == "/\(number)")
                await fixture.server.answer(next)
            }
            await fixture.server.answer(second)
            for _ in 0..<5 { try await fixture.answered() }
            let count = await fixture.server.connectionCount
            #expect(count == 1)
        }
    }

    @Test func `another connection is opened when all streams are in use, up to the limit`() async throws {
        var limits = HTTPSession.Limits()
        limits.connectionsPerHost = 2
        try await HTTP2Fixture.with(streams: 100, limits: limits) { fixture in
            for _ in 0..<201 { fixture.send("x") }
            var arrivals: [FakeHTTP2Server.Arrival] = []
            for _ in 0..<200 { arrivals.append(try await fixture.arrival()) }
            #expect(arrivals.count { $0.connection == 0 } == 100)
            #expect(arrivals.count { $0.connection == 1 } == 100)
            await fixture.server.answer(arrivals[7], body: "a")
            let last = try await fixture.arrival()
            #expect(last.connection == arrivals[7].connection)
            for arrival in arrivals where arrival.stream != 15 || arrival.connection != 0 {
                await fixture.server.answer(arrival)
            }
            await fixture.server.answer(last)
            for _ in 0..<201 { try await fixture.answered() }
            let count = await fixture.server.connectionCount
            #expect(count == 2)
        }
    }

    @Test(arguments: [("127.0.0.2", nil), ("203.0.113.1", HTTPClientError.Code.connect), ("2001:db8::1", .resolve)])
    func `connections leave from the source, or are not made`(
        source: String, failure: HTTPClientError.Code?
    ) async throws {
        var limits = HTTPSession.Limits()
        limits.source = IPAddress(source)
        try await HTTP2Fixture.with(answersAll: true, limits: limits) { fixture in
            fixture.send("0")
            if let failure {
                let error = try await fixture.failed()
                #expect(error.code == failure)
            } else {
                try await fixture.answered()
            }
        }
    }

    @Test func `only the request that a connection was made for reports it`() async throws {
        try await HTTP2Fixture.with(answersAll: true) { fixture in
            fixture.send("0", "1")
            let responses = try await [fixture.answered(), fixture.answered()]
            #expect(responses.map(\.isNewConnection) == [true, false])
            #expect(responses.allSatisfy { $0.version == .http2 && $0.duration > .zero })
        }
    }

    // MARK: Refused and reset streams

    @Test func `requests that a GOAWAY leaves out are sent again elsewhere, and the others finish`() async throws {
        try await HTTP2Fixture.with { fixture in
            fixture.send("0")
            let first = try await fixture.arrival()
            fixture.send("1", "2")
            let second = try await fixture.arrival()
            _ = try await fixture.arrival()
            await fixture.server.goAway(0, lastStream: second.stream - 2)
            for path in ["/1", "/2"] {
                let again = try await fixture.arrival()
                #expect(again.connection == 1)
                #expect(again.request.path == path)
                #expect(again.request.body == Array("{}".utf8))
                await fixture.server.answer(again, status: 201)
            }
            for _ in 0..<2 {
                let response = try await fixture.answered()
                #expect(response.status == 201)
            }
            await fixture.server.answer(first, status: 202)
            let response = try await fixture.answered()
            #expect(response.status == 202)
            for expected in [FakeHTTP2Server.Event.opened(0), .opened(1), .closed(0)] {
                let event = try await fixture.server.events.next()
                #expect(event == expected)
            }
        }
    }

    @Test func `a refused stream is sent again on another connection, but not forever`() async throws {
        try await HTTP2Fixture.with { fixture in
            fixture.send("x")
            for connection in 0..<3 {
                let arrival = try await fixture.arrival()
                #expect(arrival.connection == connection)
                await fixture.server.reset(arrival, .refusedStream)
            }
            let arrival = try await fixture.arrival()
            await fixture.server.answer(arrival)
            try await fixture.answered()

            fixture.send("y")
            for _ in 0..<4 { await fixture.server.reset(try await fixture.arrival(), .refusedStream) }
            let error = try await fixture.failed()
            #expect(error.code == .reset)
        }
    }

    @Test(arguments: [2, HTTP2ErrorCode.cancel.rawValue, 11, 0].map(HTTP2ErrorCode.init))
    func `another reset makes the stream fail, and its connection continues`(code: HTTP2ErrorCode) async throws {
        try await HTTP2Fixture.with { fixture in
            fixture.send("0", "1")
            let first = try await fixture.arrival()
            let second = try await fixture.arrival()
            await fixture.server.reset(first, code)
            let error = try await fixture.failed()
            #expect(error.code == .reset)
            await fixture.server.answer(second)
            try await fixture.answered()
            let count = await fixture.server.connectionCount
            #expect(count == 1)
        }
    }

    @Test func `the end of a connection ends its open requests, but not the waiting ones`() async throws {
        try await HTTP2Fixture.with(streams: 1) { fixture in
            fixture.send("0", "1")
            _ = try await fixture.arrival()
            await fixture.server.drop(0)
            let error = try await fixture.failed()
            #expect(error.code == .reset)
            let second = try await fixture.arrival()
            #expect(second.connection == 1)
            #expect(second.request.path == "/1")
            await fixture.server.answer(second)
            let response = try await fixture.answered()
            #expect(response.isNewConnection)
        }
    }

    @Test func `an origin is not forgotten while it sends requests again, even if others are asked for`()
        async throws
    {
        var limits = HTTPSession.Limits()
        limits.connections = 1
        try await HTTP2Fixture.with(limits: limits) { fixture in
            // After the first response, the client knows the server's limit, and sends several requests together.
            fixture.send("0")
            await fixture.server.answer(try await fixture.arrival())
            try await fixture.answered()
            let (session, outcomes) = (fixture.session, fixture.outcomes)
            var (lost, unsent, elsewhere) = (fixture.request, fixture.request, fixture.request)
            unsent.url += "unsent"
            unsent.timeout = .seconds(300)
            elsewhere.url = "https://127.0.0.1:1/"
            lost.timeout = .seconds(300)
            let exchanges = Mailbox<HTTPExchange>()
            session.loop.post { [lost, elsewhere] in
                // The completion of the failed request immediately sends a request to another server. The session is at
                // its limit of connections, so it cannot open a connection to the second server.
                exchanges.put(session.send(lost) { _ in session.send(elsewhere) { _ in } })
            }
            let first = try await exchanges.next()
            _ = try await fixture.arrival()
            session.loop.post { [unsent] in
                let connection = first.connection as? HTTP2Connection
                // The kernel accepts no more output. So the connection ends after the client has assigned the request
                // to it, but before any byte was sent.
                if let socket = connection?.stream?.stream?.descriptor { shutdown(socket.number, Int32(SHUT_WR)) }
                session.send(unsent) { outcomes.put($0) }
                session.loop.post { connection?.end(HTTPClientError(.reset)) }
            }
            let again = try await fixture.arrival()
            #expect(again.connection == 1 && again.request.path == "/unsent")
            await fixture.server.answer(again)
            try await fixture.answered()
        }
    }

    // MARK: Time and cancelling

    @Test func `a request that takes too long is cancelled, and makes room`() async throws {
        try await HTTP2Fixture.with(streams: 1) { fixture in
            // The first request opens the connection, before the timeout of the second request starts.
            fixture.send("first")
            await fixture.server.answer(try await fixture.arrival())
            try await fixture.answered()
            fixture.send("0") { $0.timeout = .milliseconds(500) }
            _ = try await fixture.arrival()
            fixture.send("1")
            let error = try await fixture.failed()
            #expect(error.code == .timeout)
            let second = try await fixture.arrival()
            #expect(second.request.path == "/1")
            await fixture.server.answer(second)
            try await fixture.answered()
        }
    }

    @Test func `a request that has waited too long was not sent`() async throws {
        try await HTTP2Fixture.with(streams: 1) { fixture in
            fixture.send("0")
            let first = try await fixture.arrival()
            fixture.send("1") { $0.timeout = .milliseconds(20) }
            let error = try await fixture.failed()
            #expect(error.code == .timeout)
            fixture.send("2")
            await fixture.server.answer(first)
            try await fixture.answered()
            let next = try await fixture.arrival()
            #expect(next.request.path == "/2")
        }
    }

    @Test func `a cancelled request is reset, whether it waits or is in flight`() async throws {
        try await HTTP2Fixture.with(streams: 1) { fixture in
            let exchanges = Mailbox<HTTPExchange>()
            fixture.session.loop.post { [session = fixture.session, request = fixture.request] in
                for _ in 0..<2 {
                    exchanges.put(session.send(request) { fixture.outcomes.put($0) })
                }
            }
            _ = try await fixture.arrival()
            fixture.send("2")
            let (first, second) = try await (exchanges.next(), exchanges.next())
            for exchange in [second, first] {
                fixture.session.loop.post { exchange.cancel() }
                let error = try await fixture.failed()
                #expect(error.code == .cancelled)
            }
            let next = try await fixture.arrival()
            #expect(next.request.path == "/2")
            await fixture.server.answer(next)
            try await fixture.answered()
            let count = await fixture.server.connectionCount
            #expect(count == 1)
        }
    }

    @Test func `closing the session ends all waiting and open requests`() async throws {
        try await HTTP2Fixture.with(streams: 1) { fixture in
            fixture.send("0", "1")
            _ = try await fixture.arrival()
            fixture.session.loop.post { [session = fixture.session] in session.close() }
            let codes = try await [fixture.failed().code, fixture.failed().code]
            #expect(codes == [.cancelled, .cancelled])
            for expected in [FakeHTTP2Server.Event.opened(0), .closed(0)] {
                let event = try await fixture.server.events.next()
                #expect(event == expected)
            }
        }
    }

    // MARK: Signs of life of a connection (PING)

    private var hasty: HTTPSession.Limits {
        var limits = HTTPSession.Limits()
        limits.answerPatience = .milliseconds(20)
        // Even on a busy machine, a healthy server answers a PING within this time.
        limits.pingPatience = .milliseconds(400)
        limits.sickPatience = .milliseconds(200)
        limits.firstWarmPause = .milliseconds(1)
        return limits
    }

    @Test func `a silent server is asked, then avoided, then given up`() async throws {
        try await HTTP2Fixture.with(limits: hasty) { fixture in
            fixture.send("0")
            _ = try await fixture.arrival()
            await fixture.server.setDeaf(true, 0)
            for number in 0...1 {
                let event = try await fixture.server.events.next()
                #expect(event == .opened(number))
            }
            fixture.send("1")
            let second = try await fixture.arrival()
            #expect(second.connection != 0)
            await fixture.server.answer(second)
            // The two outcomes may arrive in either order.
            let outcomes = try await [fixture.outcomes.next(), fixture.outcomes.next()]
            let errors = outcomes.compactMap { if case .failure(let error) = $0 { error } else { nil } }
            #expect(errors.map(\.code) == [.reset])
        }
    }

    @Test func `a server that recovers still answers`() async throws {
        var limits = hasty
        limits.sickPatience = .seconds(60)
        try await HTTP2Fixture.with(limits: limits) { fixture in
            fixture.send("0")
            let first = try await fixture.arrival()
            await fixture.server.setDeaf(true, 0)
            for _ in 0...1 { _ = try await fixture.server.events.next() }
            await fixture.server.setDeaf(false, 0)
            await fixture.server.answer(first, status: 202)
            let response = try await fixture.answered()
            #expect(response.status == 202)
            fixture.send("1")
            let second = try await fixture.arrival()
            #expect(second.connection == 0)
        }
    }

    @Test func `a server that only takes its time is left alone`() async throws {
        try await HTTP2Fixture.with(limits: hasty) { fixture in
            fixture.send("0")
            let first = try await fixture.arrival()
            // The connection stays open while the server answers PINGs, even if a request times out.
            fixture.send("1") { $0.timeout = .milliseconds(900) }
            _ = try await fixture.arrival()
            let late = try await fixture.failed()
            #expect(late.code == .timeout)
            await fixture.server.answer(first)
            try await fixture.answered()
            let count = await fixture.server.connectionCount
            #expect(count == 1)
        }
    }

    @Test func `an idle connection is asked too`() async throws {
        var limits = hasty
        limits.pingInterval = .milliseconds(20)
        try await HTTP2Fixture.with(answersAll: true, limits: limits) { fixture in
            fixture.send("0")
            try await fixture.answered()
            await fixture.server.setDeaf(true, 0)
            for number in 0...1 {
                let event = try await fixture.server.events.next()
                #expect(event == .opened(number))
            }
        }
    }

    @Test func `a warm connection is there before the request and comes back when it is lost`() async throws {
        var limits = HTTPSession.Limits()
        limits.firstWarmPause = .milliseconds(1)
        try await HTTP2Fixture.with(answersAll: true, limits: limits) { fixture in
            fixture.session.loop.post { [session = fixture.session, request = fixture.request] in
                session.keepWarm(request)
            }
            let opened = try await fixture.server.events.next()
            #expect(opened == .opened(0))
            await fixture.server.goAway(0, lastStream: 0)
            var events: Set<FakeHTTP2Server.Event> = []
            for _ in 0..<2 { events.insert(try await fixture.server.events.next()) }
            #expect(events == [.closed(0), .opened(1)])
            await fixture.server.drop(1)
            let third = try await fixture.server.events.next()
            #expect(third == .opened(2))
            fixture.send("0")
            let response = try await fixture.answered()
            #expect(!response.isNewConnection)
            let count = await fixture.server.connectionCount
            #expect(count == 3)
        }
    }
}
