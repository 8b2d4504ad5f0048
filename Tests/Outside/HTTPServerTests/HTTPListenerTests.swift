import Addressing
import Crypto
import Foundation
import HTTP1Connections
import HTTPClient
import HTTPSemantics
import LoopTesting
import Reactor
import TestSupport
import Testing
import Timekeeping

@testable import HTTPServer

@Suite("HTTP listener", .timeLimit(.minutes(10)))
struct HTTPListenerTests {
    /// Short time limits, so that no test waits for a lingering connection.
    private static let limits: HTTPListener.Limits = {
        var limits = HTTPListener.Limits()
        limits.lingerTimeout = .milliseconds(50)
        return limits
    }()

    /// Long time limits, so that no slow machine closes a connection whose client reads nothing.
    private static let patient: HTTPListener.Limits = {
        var limits = Self.limits
        limits.headTimeout = .seconds(1_000)
        limits.outputTimeout = .seconds(1_000)
        return limits
    }()

    /// Answers with a description of the request, so that the test can check how the server has read the request.
    @Sendable private static func echo(_ request: HTTPRequest) async -> HTTPResponse {
        let lines = [
            request.method, request.target, "\(request.path)", "\(request.query.map { [$0.name, $0.value] })",
            request.field("x-test") ?? "none", "\(request.remote.address)",
        ]
        return HTTPResponse(
            status: 202, fields: [HTTPField("X-Answer", "yes"), HTTPField("X-Bad", "a\r\nX-Injected: b")],
            body: Array(lines.joined(separator: "\n").utf8) + request.body)
    }

    private func withServer(
        limits: HTTPListener.Limits = Self.limits,
        respond: @escaping @Sendable (HTTPRequest) async -> HTTPResponse = echo,
        _ body: (HTTPListener, HTTPSession, Endpoint) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let bench = Bench(loop)
            let (listener, endpoint, session) = try await bench.run { bench in
                let listener = try HTTPListener(on: bench.loop, limits: limits, respond: respond)
                let endpoint = try listener.listen(on: Endpoint(.loopbackV4, 0))
                return (listener, endpoint, HTTPSession(on: bench.loop))
            }
            try await body(listener, session, endpoint)
            await bench.run { _ in
                session.close()
                listener.close()
            }
        }
    }

    @Test func `a request is read and answered`() async throws {
        try await withServer { _, session, endpoint in
            let response = try await session.response(
                to: HTTPClientRequest(
                    method: "PUT", url: "http://\(endpoint)/v1/a%2Fb//c?x=1&y=%26+z&empty",
                    headers: [HTTPField("X-Test", "value")], body: Array("\n{}".utf8)))
            #expect(response.status == 202)
            #expect(response.header("x-answer") == "yes")
            #expect(response.header("x-injected") == nil)
            let expected = [
                "PUT", "/v1/a%2Fb//c?x=1&y=%26+z&empty", #"["v1", "a/b", "", "c"]"#,
                #"[["x", "1"], ["y", "& z"], ["empty", ""]]"#, "value", "127.0.0.1", "{}",
            ]
            #expect(String(decoding: response.body, as: UTF8.self) == expected.joined(separator: "\n"))
        }
    }

    @Test(arguments: ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
    func `methods are served, HEAD without a body`(method: String) async throws {
        try await withServer { _, session, endpoint in
            // The server answers a second request on the connection, so it has read the first request to its end.
            for _ in 0..<2 {
                let response = try await session.response(
                    to: HTTPClientRequest(method: method, url: "http://\(endpoint)/"))
                #expect(response.status == 202)
                #expect(response.body.isEmpty == (method == "HEAD"))
            }
        }
    }

    @Test func `an unknown method is refused`() async throws {
        try await withServer { _, session, endpoint in
            let response = try await session.response(to: HTTPClientRequest(method: "BREW", url: "http://\(endpoint)/"))
            #expect(response.status == 501)
        }
    }

    @Test func `a body of the limit is accepted, and one more byte is refused`() async throws {
        var limits = Self.limits
        limits.body = 1000
        try await withServer(limits: limits) { _, session, endpoint in
            for (count, status) in [(1000, 202), (1001, 413)] {
                let response = try await session.response(
                    to: HTTPClientRequest(
                        method: "POST", url: "http://\(endpoint)/", body: [UInt8](repeating: 1, count: count)))
                #expect(response.status == status)
            }
        }
    }

    @Test func `a head over the limit is refused and the connection closed`() async throws {
        try await withServer { _, _, endpoint in
            let fields = (0..<200).map { "X-\($0): \(String(repeating: "x", count: 100))\r\n" }.joined()
            let answer = try await TCPClient.answer(to: "GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n", from: endpoint)
            #expect(answer.hasPrefix("HTTP/1.1 431 "))
            #expect(answer.contains("\r\nConnection: close\r\n"))
        }
    }

    @Test(arguments: ["GARBAGE\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9.9\r\n\r\n", "GET http://[ HTTP/1.1\r\n\r\n"])
    func `invalid requests are not answered with success`(text: String) async throws {
        try await withServer { _, _, endpoint in
            let answer = try await TCPClient.answer(to: text, from: endpoint)
            #expect(answer.hasPrefix("HTTP/1.1 4") || answer.hasPrefix("HTTP/1.1 5"))
        }
    }

    @Test func `requests in one packet are answered in order`() async throws {
        try await withServer { _, _, endpoint in
            let first = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
            let second = "GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            let answer = try await TCPClient.answer(to: first + second, from: endpoint)
            #expect(answer.components(separatedBy: "HTTP/1.1 202").count == 3)
            let positions = try (
                #require(answer.range(of: "\n/1\n")).lowerBound, #require(answer.range(of: "\n/2\n")).lowerBound
            )
            #expect(positions.0 < positions.1)
        }
    }

    @Test func `an idle connection is closed, half a request is answered first`() async throws {
        for (text, answer) in [
            ("", ""), ("GET / HTTP/1.1\r\nHost: a\r\n", "HTTP/1.1 408 "),
            ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc", "HTTP/1.1 408 "),
        ] {
            var limits = Self.limits
            limits.headTimeout = .milliseconds(20)
            limits.bodyTimeout = .milliseconds(20)
            try await withServer(limits: limits) { _, _, endpoint in
                let got = try await TCPClient.answer(to: text, from: endpoint)
                #expect(got.hasPrefix(answer) && got.isEmpty == answer.isEmpty)
            }
        }
        var limits = Self.limits
        limits.idleTimeout = .milliseconds(20)
        try await withServer(limits: limits) { _, _, endpoint in
            let got = try await TCPClient.answer(to: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", from: endpoint)
            #expect(got.hasPrefix("HTTP/1.1 202 ") && !got.contains("Connection: close"))
        }
    }

    @Test func `changed limits hold for the next connection`() async throws {
        try await withServer(limits: Self.patient) { listener, session, endpoint in
            await Bench(session.loop).run { _ in listener.limits.headTimeout = .milliseconds(20) }
            let answer = try await TCPClient.answer(to: "GET / HTTP/1.1\r\n", from: endpoint)
            #expect(answer.hasPrefix("HTTP/1.1 408 "))
        }
    }

    @Test func `a byte now and then renews no time limit`() async throws {
        var limits = Self.limits
        limits.headTimeout = .milliseconds(100)
        try await withServer(limits: limits) { _, _, endpoint in
            try await withLoop { loop in
                let ended = Mailbox<String?>()
                let bench = Bench(loop)
                let dripper = try await bench.run { bench in try Dripper(to: endpoint, on: bench.loop, ended) }
                var all = ""
                while let part = try await ended.next() { all += part }
                #expect(all.hasPrefix("HTTP/1.1 408 "))
                let count = await bench.run { _ in dripper.count }
                #expect(count > 1)
            }
        }
    }

    @Test func `connections beyond the limit of a source are closed at once`() async throws {
        var limits = Self.limits
        limits.connectionsPerSource = 1
        try await withServer(limits: limits) { listener, session, endpoint in
            // The session's connection stays open until the test ends.
            _ = try await session.response(to: HTTPClientRequest(url: "http://\(endpoint)/"))
            let answer = try await TCPClient.answer(to: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", from: endpoint)
            #expect(answer.isEmpty)
            let response = try await session.response(to: HTTPClientRequest(url: "http://\(endpoint)/"))
            #expect(response.status == 202)
        }
    }

    @Test func `in a full table, the connection that has been idle longest is closed`() async throws {
        var limits = Self.limits
        limits.connections = 2
        limits.headTimeout = .seconds(60)
        try await withServer(limits: limits) { listener, session, endpoint in
            try await withLoop { loop in
                let ends = (Mailbox<Int>(), Mailbox<Int>())
                func open(_ mailbox: Mailbox<Int>, _ text: String, events: Int) async throws -> StreamConnection {
                    let connected = Mailbox<Bool>()
                    let connection = try await Bench(loop).run { bench in
                        let connection = try StreamConnection.connect(
                            to: endpoint, on: bench.loop,
                            handlers: .init(
                                connected: { _ in connected.put(true) },
                                received: { _, bytes in
                                    connected.put(true)
                                    return bytes.count
                                }, closed: { _, _ in mailbox.put(1) }))
                        connection.send(Array(text.utf8))
                        return connection
                    }
                    for _ in 0..<events { _ = try await connected.next() }
                    return connection
                }
                // The first connection waits for 100 Continue, and the second connection has sent only a part of a
                // request head.
                let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
                let first = try await open(ends.0, head, events: 2)
                let second = try await open(ends.1, "GET / HTT", events: 1)
                let response = try await session.response(to: HTTPClientRequest(url: "http://\(endpoint)/"))
                #expect(response.status == 202)
                #expect(try await ends.1.next() == 1)
                await Bench(loop).run { _ in
                    first.send(Array("123456789".utf8))
                    first.close(flushing: true)
                    second.close()
                }
            }
        }
    }

    @Test func `a client that waits to be asked for its body is asked`() async throws {
        try await withServer { _, session, endpoint in
            let body = [UInt8](repeating: UInt8(ascii: "x"), count: 100_000)
            let response = try await session.response(
                to: HTTPClientRequest(
                    method: "POST", url: "http://\(endpoint)/", headers: [HTTPField("Expect", "100-continue")],
                    body: body))
            #expect(response.status == 202)
            #expect(response.body.suffix(100_000) == body[...])
        }
    }

    @Test func `many requests at once are answered one by one, even if an answer is slow`() async throws {
        try await withServer { _, _, endpoint in
            let one = "GET /x HTTP/1.1\r\nHost: a\r\nX-Test: \(String(repeating: "y", count: 1000))\r\n\r\n"
            let last = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            let answer = try await TCPClient.answer(to: String(repeating: one, count: 150) + last, from: endpoint)
            #expect(answer.components(separatedBy: "HTTP/1.1 202").count == 152)
            #expect(answer.contains("\n/last\n"))
        }
    }

    @Test func `between two requests other work has its turn, and no request is lost`() async throws {
        try await withLoop { loop in
            let bench = Bench(loop)
            let events = Mailbox<Bool>()
            let (listener, endpoint, session) = try await bench.run { bench in
                var limits = Self.limits
                limits.requestsPerTurn = 1
                let listener = try HTTPListener(on: bench.loop, limits: limits) { _, reply in
                    events.put(true)
                    loop.post { events.put(false) }
                    reply.send(HTTPResponse(status: 200))
                }
                var sessionLimits = HTTPSession.Limits()
                sessionLimits.connectionsPerHost = 50
                return (
                    listener, try listener.listen(on: Endpoint(.loopbackV4, 0)),
                    HTTPSession(on: bench.loop, limits: sessionLimits)
                )
            }
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<50 {
                    group.addTask {
                        try await session.response(to: HTTPClientRequest(url: "http://\(endpoint)/")).status
                    }
                }
                for try await status in group { #expect(status == 200) }
            }
            var order: [Bool] = []
            for _ in 0..<100 { order.append(try await events.next()) }
            #expect(order == (0..<100).map { $0 % 2 == 0 })
            await bench.run { _ in
                session.close()
                listener.close()
            }
        }
    }

    @Test func `TLS is spoken with the certificate of the moment`() async throws {
        let first = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        let second = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        let folder = try TemporaryFolder()
        try folder.write(first.certificate, to: "first")
        try folder.write(second.certificate, to: "second")
        try await withLoop { loop in
            let bench = Bench(loop)
            let (listener, endpoint, session) = try await bench.run { bench in
                let listener = try HTTPListener(on: bench.loop, limits: Self.limits, respond: Self.echo)
                let tls = try TLSContext.server(
                    certificate: .bytes(first.certificate), key: .bytes(first.key), protocols: ["http/1.1"])
                let endpoint = try listener.listen(on: Endpoint(.loopbackV4, 0), tls: tls)
                return (listener, endpoint, HTTPSession(on: bench.loop))
            }
            func status(trusting authority: String) async throws -> Int {
                var request = HTTPClientRequest(url: "https://\(endpoint)/")
                request.route.authorityFile = folder.file(authority)
                // Each authority has its own group of requests, so that the client opens a new connection for it.
                request.route.group = authority
                return try await session.response(to: request).status
            }
            #expect(try await status(trusting: "first") == 202)
            try await bench.run { _ in
                listener.replaceTLS(
                    try TLSContext.server(certificate: .bytes(second.certificate), key: .bytes(second.key)))
            }
            #expect(try await status(trusting: "second") == 202)
            await bench.run { _ in
                session.close()
                listener.close()
            }
        }
    }

    @Test func `an answer may be given later, and a forgotten one is an error`() async throws {
        try await withLoop { loop in
            let bench = Bench(loop)
            let replies = Mailbox<HTTPReply>()
            let (listener, endpoint, session) = try await bench.run { bench in
                let listener = try HTTPListener(on: bench.loop) { request, reply in
                    if request.path == ["later"] { replies.put(reply) }
                }
                return (listener, try listener.listen(on: Endpoint(.loopbackV4, 0)), HTTPSession(on: bench.loop))
            }
            async let later = session.response(to: HTTPClientRequest(url: "http://\(endpoint)/later"))
            let reply = try await replies.next()
            let count = await bench.run { _ in listener.waiting.count }
            #expect(count == 1)
            let forgotten = try await session.response(to: HTTPClientRequest(url: "http://\(endpoint)/forgotten"))
            #expect(forgotten.status == 500)
            reply.send(HTTPResponse(status: 200, text: "done"))
            let response = try await later
            #expect(response.body == Array("done\n".utf8))
            await bench.run { _ in listener.close() }
        }
    }

    @Test func `an answer after the end of the client or the listener is dropped`() async throws {
        try await withLoop { loop in
            let bench = Bench(loop)
            let replies = Mailbox<HTTPReply>()
            let (listener, endpoint, session) = try await bench.run { bench in
                let listener = try HTTPListener(on: bench.loop) { replies.put($1) }
                return (listener, try listener.listen(on: Endpoint(.loopbackV4, 0)), HTTPSession(on: bench.loop))
            }
            let outcome = Mailbox<Bool>()
            for isClosedByClient in [true, false] {
                let exchange = await bench.run { _ in
                    session.send(HTTPClientRequest(url: "http://\(endpoint)/")) { result in
                        outcome.put((try? result.get()) == nil)
                    }
                }
                let reply = try await replies.next()
                await bench.run { _ in
                    if isClosedByClient { exchange.cancel() } else { listener.close() }
                }
                let isFailure = try await outcome.next()
                #expect(isFailure)
                reply.send(HTTPResponse(status: 200))
                let count = await bench.run { _ in listener.waiting.count }
                #expect(count == 0)
            }
        }
    }

    @Test func `an answer may end the connection, and so may its handler without one`() async throws {
        try await withLoop { loop in
            let bench = Bench(loop)
            let (listener, endpoint) = try await bench.run { bench in
                let listener = try HTTPListener(on: bench.loop) { request, reply in
                    guard request.path == ["answer"] else { return reply.hangUp() }
                    var response = HTTPResponse(status: 200, text: "the last")
                    response.endsConnection = true
                    reply.send(response)
                }
                return (listener, try listener.listen(on: Endpoint(.loopbackV4, 0)))
            }
            let one = "GET /answer HTTP/1.1\r\nHost: a\r\n\r\n"
            let answer = try await TCPClient.answer(to: one + one, from: endpoint)
            #expect(answer.components(separatedBy: "HTTP/1.1 200").count == 2)
            #expect(answer.contains("\r\nConnection: close\r\n") && answer.hasSuffix("the last\n"))
            #expect(try await TCPClient.answer(to: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", from: endpoint).isEmpty)
            #expect(await bench.run { _ in listener.connectionCount } == 0)
            await bench.run { _ in listener.close() }
        }
    }

    /// Whether the listener accepted the last piece of a response body, and the most bytes that waited for the client.
    private struct Given {
        var isWanted = true
        var most = 0
    }

    /// Runs a test with a server that answers in pieces, and records what happens to the pieces.
    private func withPieces(
        after first: HTTPResponse = HTTPResponse(status: 200, text: "first"), _ pieces: [[UInt8]], ends: Bool = true,
        _ body: (HTTPListener, Bench, Endpoint, Mailbox<Given>) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let bench = Bench(loop)
            let given = Mailbox<Given>()
            let place = Locked(HTTPListener?.none)
            let (listener, endpoint) = try await bench.run { bench in
                let listener = try HTTPListener(on: bench.loop, limits: Self.patient) { _, reply in
                    let body = reply.stream(first)
                    let listener = place.withLock { $0 }
                    Task {
                        var outcome = Given()
                        for piece in pieces where outcome.isWanted {
                            outcome.isWanted = await body.send(piece)
                            let bytes = await Bench(loop).run { _ in listener?.heldUp.bytes ?? 0 }
                            outcome.most = max(outcome.most, bytes)
                        }
                        if ends, outcome.isWanted { body.end() }
                        given.put(outcome)
                    }
                }
                place.withLock { $0 = listener }
                return (listener, try listener.listen(on: Endpoint(.loopbackV4, 0)))
            }
            try await body(listener, bench, endpoint, given)
            place.withLock { $0 = nil }
            await bench.run { _ in listener.close() }
        }
    }

    @Test func `a body comes in pieces, and the next request is answered on the same connection`() async throws {
        try await withPieces([Array("second".utf8), [], [UInt8](repeating: 1, count: 300)]) { _, _, endpoint, _ in
            let one = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            let answer = try await TCPClient.answer(to: one + last, from: endpoint)
            let ones = String(repeating: "\u{1}", count: 300)
            let chunks = "\r\n\r\n6\r\nfirst\n\r\n6\r\nsecond\r\n12c\r\n\(ones)\r\n0\r\n\r\n"
            #expect(answer.components(separatedBy: chunks).count == 3 && answer.hasSuffix(chunks))
            #expect(answer.components(separatedBy: "\r\nTransfer-Encoding: chunked\r\n").count == 3)
            #expect(!answer.contains("Content-Length"))
        }
    }

    @Test func `a client without chunked encoding gets the bytes and the end, and a HEAD request gets the head`()
        async throws
    {
        try await withPieces([Array("second".utf8)]) { _, _, endpoint, _ in
            let old = try await TCPClient.answer(
                to: "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", from: endpoint)
            #expect(old.hasSuffix("\r\nConnection: close\r\n\r\nfirst\nsecond"))
            #expect(!old.contains("chunked"))
            let heads = try await TCPClient.answer(
                to: "HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                from: endpoint)
            #expect(heads.components(separatedBy: "chunked\r\n").count == 3 && !heads.contains("first"))
        }
    }

    @Test func `a body that is given up ends the connection without its last chunk`() async throws {
        try await withPieces([Array("second".utf8)], ends: false) { listener, bench, endpoint, _ in
            let answer = try await TCPClient.answer(to: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", from: endpoint)
            #expect(answer.hasPrefix("HTTP/1.1 200") && !answer.contains("0\r\n\r\n"))
            #expect(await bench.run { _ in listener.connectionCount } == 0)
        }
    }

    /// A body that does not fit into the kernel's socket buffers.
    private static let much = [[UInt8]](repeating: [UInt8](repeating: 7, count: 256 << 10), count: 200)

    @Test func `no piece is asked for while the client does not accept the ones before`() async throws {
        try await withPieces(Self.much) { listener, bench, endpoint, given in
            try await withLoop { loop in
                let client = try await TCPClient.connected(to: endpoint, on: loop)
                #expect(try await client.events.next() == .connected)
                await client.setReading(false)
                await client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                // The loop waits until the client's slow reading stops the sending of a body. The suite's time limit ends a test that waits forever.
                while await bench.run({ _ in listener.heldUp.count }) == 0 {
                    try Task.checkCancellation()
                    await Task.yield()
                }
                await client.setReading(true)
                let count = try await client.text { _ in false }.utf8.count { $0 == 7 }
                #expect(count == Self.much.count * Self.much[0].count)
                let outcome = try await given.next()
                #expect(outcome.isWanted && outcome.most <= 64 << 10)
                await client.close()
            }
        }
    }

    @Test func `a client that does not read even the first piece at once gets all pieces`() async throws {
        let first = HTTPResponse(type: "text/plain", body: [UInt8](repeating: 7, count: 32 << 20))
        try await withPieces(after: first, [[7, 7], [7]]) { listener, bench, endpoint, given in
            try await withLoop { loop in
                let client = try await TCPClient.connected(to: endpoint, on: loop)
                #expect(try await client.events.next() == .connected)
                await client.setReading(false)
                await client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                while await bench.run({ _ in listener.heldUp.count }) == 0 {
                    try Task.checkCancellation()
                    await Task.yield()
                }
                await client.setReading(true)
                let count = try await client.text { _ in false }.utf8.count { $0 == 7 }
                #expect(count == first.body.count + 3)
                #expect(try await given.next().isWanted)
                await client.close()
            }
        }
    }

    @Test func `the sender of pieces is told that the client has gone`() async throws {
        try await withPieces(Self.much) { listener, bench, endpoint, given in
            try await withLoop { loop in
                let client = try await TCPClient.connected(to: endpoint, on: loop)
                #expect(try await client.events.next() == .connected)
                await client.setReading(false)
                await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                while await bench.run({ _ in listener.heldUp.count }) == 0 {
                    try Task.checkCancellation()
                    await Task.yield()
                }
                await client.close()
                #expect(try await given.next().isWanted == false)
                #expect(await bench.run { _ in listener.waiting.count } == 0)
            }
        }
    }

    @Test(arguments: ["other", "http/1.1"])
    func `a client that chooses another protocol is handed over, and others are served`(
        chosen: String
    ) async throws {
        let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        try await withLoop { loop in
            let bench = Bench(loop)
            let told = Mailbox<String>()
            let (listener, client) = try await bench.run { bench in
                let listener = try HTTPListener(on: bench.loop) { $1.send(HTTPResponse(status: 200, text: "served")) }
                let guest = Guest()
                listener.give("other") { stream in guest.take(stream) }
                let server = try TLSContext.server(
                    certificate: .bytes(identity.certificate), key: .bytes(identity.key),
                    protocols: ["other", "http/1.1"])
                let endpoint = try listener.listen(on: Endpoint(.loopbackV4, 0), tls: server)
                let context = try TLSContext.client(protocols: [chosen], verifiesPeer: false)
                let client = try StreamConnection.connect(
                    to: endpoint, on: bench.loop, tls: try context.makeClientSession(host: "127.0.0.1"),
                    handlers: .init(
                        connected: { $0.send(Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)) },
                        received: { _, bytes in
                            told.put(
                                unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) })
                            return bytes.count
                        }, closed: { _, _ in }))
                return (listener, client)
            }
            let answer = try await told.next()
            #expect(answer.hasPrefix(chosen == "other" ? "given: GET" : "HTTP/1.1 200"))
            #expect(await bench.run { _ in listener.connectionCount } == (chosen == "other" ? 0 : 1))
            await bench.run { _ in
                client.close()
                listener.close()
            }
        }
    }

    @Test func `a control socket serves its user and leaves no file`() async throws {
        try await withLoop { loop in
            let folder = try TemporaryFolder()
            defer { folder.remove() }
            let path = folder.file("socket")
            let bench = Bench(loop)
            let listener = try await bench.run { bench in
                let listener = try HTTPListener(on: bench.loop, respond: Self.echo)
                try listener.listen(unixPath: path)
                return listener
            }
            var request = HTTPClientRequest(url: "http://sippushd/held")
            request.route.unixSocketPath = path
            let response = try HTTPSession.wait(for: request)
            let lines = String(decoding: response.body, as: UTF8.self).split(separator: "\n")
            #expect(lines.first == "GET" && lines.last == "0.0.0.0")
            await bench.run { _ in listener.close() }
            let error = #expect(throws: HTTPClientError.self) { try HTTPSession.wait(for: request) }
            #expect(error?.code == .connect)
        }
    }
}

/// Takes over connections from the listener, and records the bytes that arrive on them.
private final class Guest {
    private var stream: StreamConnection?

    func take(_ stream: StreamConnection) {
        self.stream = stream
        stream.handOver(
            to: .init(
                connected: { _ in },
                received: { stream, bytes in
                    stream.send(Array("given: ".utf8) + bytes.indices.map { bytes[$0] })
                    return bytes.count
                }, closed: { _, _ in self.stream = nil }), unread: [])
    }
}

/// A client that sends a request head one byte at a time, and never finishes it.
private final class Dripper: @unchecked Sendable {
    private(set) var count = 0
    private var timer: LoopTimer?
    private var connection: StreamConnection?

    init(to endpoint: Endpoint, on loop: EventLoop, _ ended: Mailbox<String?>) throws {
        connection = try StreamConnection.connect(
            to: endpoint, on: loop,
            handlers: .init(
                connected: { _ in },
                received: { _, bytes in
                    ended.put(unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) })
                    return bytes.count
                }, closed: { _, _ in ended.put(nil) }))
        timer = try LoopTimer(on: loop) { [weak self] in self?.drip(on: loop) }
        drip(on: loop)
    }

    private func drip(on loop: EventLoop) {
        count += 1
        connection?.send(Array("G".utf8))
        timer?.arm(at: loop.now + .milliseconds(10))
    }
}

extension HTTPListener {
    /// Creates a server whose handler is a task. The listener sends the response that the task returns.
    fileprivate convenience init(
        on loop: EventLoop, limits: Limits = Limits(),
        respond: @escaping @Sendable (HTTPRequest) async -> HTTPResponse
    ) throws(SystemError) {
        try self.init(on: loop, limits: limits) { request, reply in
            Task { reply.send(await respond(request)) }
        }
    }
}

extension HTTPListener {
    /// The number of response bodies that wait for slow clients, and the number of their bytes that are ready.
    fileprivate var heldUp: (count: Int, bytes: Int) {
        let streams = waiting.values.map(\.stream)
        return (streams.count(where: \.isHeldUp), streams.reduce(0) { $0 + $1.outputCount })
    }
}
