import Addressing
import Crypto
import HTTP2
import HTTPClient
import HTTPSemantics
import LoopTesting
import ProviderTesting
import Reactor
import Testing

@Suite("HTTP/2 messages and handshakes", .timeLimit(.minutes(10)))
struct HTTP2MessageTests {
    @Test func `a request arrives complete and the answer comes back`() async throws {
        try await HTTP2Fixture.with { fixture in
            fixture.send("3/device/ab%2Fcd?x=1#part") {
                $0.headers = [
                    HTTPField("Apns-Topic", "a.b.voip"), HTTPField("x-empty", ""), HTTPField("X-Blank", " a b\t"),
                    HTTPField("authorization", "bearer x"), HTTPField("Connection", "keep-alive"),
                    HTTPField("Keep-Alive", "1"), HTTPField("TE", "gzip"), HTTPField("Upgrade", "x"),
                    HTTPField("Transfer-Encoding", "chunked"), HTTPField("apns-id", "1"),
                ]
                $0.body = Array("{\"a\":1}".utf8)
            }
            let arrival = try await fixture.arrival()
            let request = arrival.request
            #expect(request.method == "POST")
            #expect(request.scheme == "https")
            #expect("https://\(request.authority)/" == fixture.request.url)
            #expect(request.path == "/3/device/ab%2Fcd?x=1")
            #expect(request.body == Array("{\"a\":1}".utf8))
            #expect(
                request.fields.map { "\($0.name)=\($0.value)" } == [
                    "apns-topic=a.b.voip", "x-empty=", "x-blank=a b", "authorization=bearer x", "apns-id=1",
                    "content-length=7",
                ])
            await fixture.server.answer(
                arrival, status: 429, fields: [("retry-after", "17"), ("apns-id", "a-b"), ("x-empty", "")],
                body: "later")
            let response = try await fixture.answered()
            #expect(response.status == 429)
            #expect(response.header("Retry-After") == "17")
            #expect(response.header("apns-id") == "a-b")
            #expect(response.header("x-empty") == "")
            #expect(response.header("apns") == nil)
            #expect(response.body == Array("later".utf8))
        }
    }

    @Test(arguments: [("GET", ""), ("DELETE", ""), ("PUT", "x"), ("POST", ""), ("HEAD", "")])
    func `methods with and without body`(method: String, body: String) async throws {
        try await HTTP2Fixture.with(answersAll: true) { fixture in
            fixture.send("") {
                $0.method = method
                $0.body = Array(body.utf8)
            }
            let arrival = try await fixture.arrival()
            #expect(arrival.request.method == method)
            #expect(arrival.request.body == Array(body.utf8))
            try await fixture.answered()
        }
    }

    @Test func `bodies longer than the windows pass both ways`() async throws {
        let long = String(repeating: "0123456789abcdef", count: 40_000)
        try await HTTP2Fixture.with { fixture in
            fixture.send("0", "1") { $0.body = Array(long.utf8) }
            for _ in 0..<2 {
                let arrival = try await fixture.arrival()
                #expect(arrival.request.body == Array(long.utf8))
                await fixture.server.answer(arrival, body: long)
            }
            for _ in 0..<2 {
                let response = try await fixture.answered()
                #expect(response.body == Array(long.utf8))
            }
        }
    }

    @Test func `interim answers and trailers are ignored`() async throws {
        try await HTTP2Fixture.with { fixture in
            fixture.send("")
            let arrival = try await fixture.arrival()
            await fixture.server.hint(arrival, status: 103)
            await fixture.server.hint(arrival, status: 100)
            await fixture.server.answer(
                arrival, status: 200, fields: [("a", "1")], body: "ok", trailers: [("a", "2"), ("b", "3")])
            let response = try await fixture.answered()
            #expect(response.status == 200)
            #expect(response.header("a") == "1")
            #expect(response.header("b") == nil)
            #expect(response.body == Array("ok".utf8))
        }
    }

    @Test func `an empty body that ends in a frame of its own is an empty body`() async throws {
        try await HTTP2Fixture.with { fixture in
            fixture.send("")
            let arrival = try await fixture.arrival()
            await fixture.server.answer(arrival, fields: [("content-length", "0")], endsWithHead: false)
            let response = try await fixture.answered()
            #expect(response.status == 200)
            #expect(response.body.isEmpty)
        }
    }

    @Test func `failures have their names`() async throws {
        try await HTTP2Fixture.with { fixture in
            fixture.send("0") { $0.responseLimit = 100 }
            let long = try await fixture.arrival()
            await fixture.server.answer(long, body: String(repeating: "x", count: 101))
            let tooLong = try await fixture.failed()
            #expect(tooLong.code == .bodyTooLarge)

            fixture.send("0a") {
                $0.responseLimit = 100
                $0.dropsLongBody = true
            }
            let dropped = try await fixture.arrival()
            await fixture.server.answer(
                dropped, status: 429, fields: [("retry-after", "7")], body: String(repeating: "x", count: 101))
            let cut = try await fixture.answered()
            #expect(cut.status == 429 && cut.body.isEmpty && cut.header("retry-after") == "7")

            fixture.send("1")
            let wide = try await fixture.arrival()
            await fixture.server.answer(wide, fields: [("x", String(repeating: "x", count: 17_000))])
            let tooWide = try await fixture.failed()
            #expect(tooWide.code == .badResponse)

            fixture.send("2")
            let short = try await fixture.arrival()
            await fixture.server.answer(short, fields: [("content-length", "10")], body: "short")
            let tooShort = try await fixture.failed()
            #expect(tooShort.code == .badResponse)

            fixture.send("3") { $0.responseLimit = 5 }
            let good = try await fixture.arrival()
            await fixture.server.answer(good, body: "short")
            let response = try await fixture.answered()
            #expect(response.body.count == 5)
            let count = await fixture.server.connectionCount
            #expect(count == 1)
        }
    }

    @Test func `frames that break the rules end the connection`() async throws {
        try await HTTP2Fixture.with { fixture in
            fixture.send("0")
            let arrival = try await fixture.arrival()
            // The server sends a DATA frame on stream 0, and so violates the rules of the connection.
            await fixture.server.sendRaw([0, 0, 0, 0, 1, 0, 0, 0, 0], on: arrival.connection)
            let error = try await fixture.failed()
            #expect(error.code == .reset)
        }
    }

    @Test func `a name is looked up, and an address given replaces that`() async throws {
        try await HTTP2Fixture.with(answersAll: true) { fixture in
            fixture.send("") { $0.url = $0.url.replacing("127.0.0.1", with: "localhost") }
            let response = try await fixture.answered()
            #expect(response.isNewConnection)
            let arrival = try await fixture.arrival()
            #expect(arrival.request.authority.hasPrefix("localhost:"))
            fixture.send("") { $0.url = $0.url.replacing("127.0.0.1", with: "no-such-host.invalid") }
            let unknown = try await fixture.failed()
            #expect(unknown.code == .resolve)
            fixture.send("") {
                $0.url = $0.url.replacing("127.0.0.1", with: "no-such-host.invalid")
                $0.route.address = .loopbackV4
            }
            // The TLS handshake fails, because the server's certificate is for another name.
            let misnamed = try await fixture.failed()
            #expect(misnamed.code == .tls)
        }
    }

    @Test func `servers that cannot be reached or trusted`() async throws {
        try await HTTP2Fixture.with(answersAll: true) { fixture in
            fixture.send("") { $0.route.authorityFile = nil }
            let untrusted = try await fixture.failed()
            #expect(untrusted.code == .tls)
            fixture.send("") { $0.route.authorityFile = "/no/such/file" }
            let unreadable = try await fixture.failed()
            #expect(unreadable.code == .invalidRequest)
            await fixture.server.close()
            fixture.send("0", "1")
            for _ in 0..<2 {
                let refused = try await fixture.failed()
                #expect(refused.code == .connect)
            }
        }
    }

    @Test func `our certificate is shown to servers that ask for it`() async throws {
        try await withLoop { serverLoop in
            try await withLoop { loop in
                let identity = try TestIdentity(hosts: ["127.0.0.1"])
                let ours = try TestIdentity(hosts: ["client"])
                defer {
                    identity.remove()
                    ours.remove()
                }
                let server = FakeHTTP2Server(serverLoop, answersAll: true)
                let url = try await server.listen(identity.context(protocols: ["h2"], clientAuthority: ours))
                let session = HTTPSession(on: loop)
                var request = HTTPClientRequest(url: url + "/")
                request.route.authorityFile = identity.certificateFile
                let stranger = await #expect(throws: HTTPClientError.self) { try await session.response(to: request) }
                // The error is `tls`, or `connect` if the client notices the end of the TCP connection before the TLS
                // alert.
                #expect(stranger?.code == .tls || stranger?.code == .connect)
                request.route.certificateFile = ours.certificateFile
                request.route.keyFile = ours.keyFile
                let response = try await session.response(to: request)
                #expect(response.status == 200)
                loop.post { session.close() }
                await server.close()
            }
        }
    }

    @Test func `a server that does not offer HTTP/2 is served by HTTP/1.1 in the same time, and remembered`()
        async throws
    {
        try await withLoop { serverLoop in
            try await withLoop { loop in
                let identity = try TestIdentity(hosts: ["127.0.0.1"])
                defer { identity.remove() }
                let server = FakeProvider(serverLoop) { _, count in count < 2 ? .answer(200, "ok") : .silence }
                let url = try await server.listen(tls: identity.context(protocols: ["http/1.1"]))
                let session = HTTPSession(on: loop)
                var request = HTTPClientRequest(url: url + "/")
                request.route.authorityFile = identity.certificateFile
                for _ in 0..<2 {
                    let response = try await session.response(to: request)
                    #expect(response.version == .http1)
                }
                // The session opened the first connection to learn the protocol, and libcurl opened and kept the second
                // connection.
                let count = await server.connectionCount
                #expect(count == 2)
                request.route.group = "another that finds out"
                request.timeout = .milliseconds(50)
                let late = await #expect(throws: HTTPClientError.self) { try await session.response(to: request) }
                #expect(late?.code == .timeout)
                loop.post { session.close() }
                await server.close()
            }
        }
    }
}
