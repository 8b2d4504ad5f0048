import Addressing
import Crypto
import Foundation
import HTTP1Connections
import HTTPClient
import HTTPSemantics
import LoopTesting
import ProviderTesting
import Reactor
import ScenarioReplay
import TestSupport
import Testing

@Suite("HTTP session, HTTP/1.1", .timeLimit(.minutes(10)))
struct HTTPSessionTests {
    /// Runs a test with a server that follows a script and an HTTP session, each on its own loop.
    private func with(
        _ replies: FakeProvider.Reply..., tls: TLSContext? = nil,
        body: (HTTPSession, FakeProvider, String) async throws -> Void
    ) async throws {
        try await withLoop { serverLoop in
            try await withLoop { loop in
                let server = FakeProvider(serverLoop) { _, count in
                    count < replies.count ? replies[count] : .silence
                }
                let url = try await server.listen(tls: tls)
                let session = HTTPSession(on: loop)
                try await body(session, server, url)
                loop.post { session.close() }
                await server.close()
            }
        }
    }

    @Test func `a request arrives complete and the answer comes back`() async throws {
        let answer =
            "HTTP/1.1 429 Slow down\r\nRetry-After:  17 \r\napns-id: a-b\r\nX-Empty:\r\nContent-Length: 5\r\n\r\nlater"
        try await with(.bytes(answer)) { session, server, url in
            var request = HTTPClientRequest(
                method: "POST", url: url + "/3/device/ab%2Fcd?x=1",
                headers: [HTTPField("apns-topic", "a.b.voip"), HTTPField("x-empty", "")],
                body: Array("{\"a\":1}".utf8))
            request.route.version = .http1
            let response = try await session.response(to: request)
            #expect(response.status == 429)
            #expect(response.version == .http1)
            #expect(response.header("retry-after") == "17")
            #expect(response.header("APNS-ID") == "a-b")
            #expect(response.header("x-empty") == "")
            #expect(response.header("apns") == nil)
            #expect(response.body == Array("later".utf8))
            #expect(response.isNewConnection)
            #expect(response.duration > .zero)

            let lines = try await server.requests.next().text.components(separatedBy: "\r\n")
            #expect(lines.first == "POST /3/device/ab%2Fcd?x=1 HTTP/1.1")
            #expect(lines.contains("apns-topic: a.b.voip"))
            #expect(lines.contains("x-empty:"))
            #expect(lines.contains("Content-Length: 7"))
            #expect(lines.last == "{\"a\":1}")
            let names = Set(lines.compactMap { $0.split(separator: ":").first?.lowercased() })
            #expect(names.isDisjoint(with: ["expect", "content-type", "user-agent"]))
        }
    }

    @Test(arguments: [
        ("GET", "", "GET"), ("DELETE", "", "DELETE"), ("PUT", "x", "PUT"), ("POST", "", "POST"),
        ("PATCH", "y", "PATCH"),
        ("GET", "z", "GET"),
    ])
    func `methods with and without body`(method: String, body: String, expected: String) async throws {
        try await with(.answer(200, "ok"), .answer(200, "ok")) { session, server, url in
            // The second request uses the libcurl handle of the first request, which must not keep settings of the
            // first request.
            for _ in 0..<2 {
                let request = HTTPClientRequest(method: method, url: url, body: Array(body.utf8))
                let response = try await session.response(to: request)
                #expect(response.status == 200)
                let text = try await server.requests.next().text
                #expect(text.hasPrefix("\(expected) / HTTP/1.1\r\n"))
                #expect(text.hasSuffix("\r\n\r\n" + body))
            }
        }
    }

    @Test func `a handle that served one kind of request serves another`() async throws {
        try await with(
            .answer(200, "ok"), .bytes("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"), .answer(200, "ok"),
            .answer(200, "ok")
        ) { session, server, url in
            for (method, body) in [("POST", "abc"), ("HEAD", ""), ("GET", ""), ("POST", "de")] {
                _ = try await session.response(
                    to: HTTPClientRequest(method: method, url: url, body: Array(body.utf8)))
                let text = try await server.requests.next().text
                #expect(text.hasPrefix(method + " / "))
                #expect(text.hasSuffix("\r\n\r\n" + body))
            }
        }
    }

    @Test func `a connection is used again, and not by another group`() async throws {
        try await with(.answer(200, "ok"), .answer(200, "ok"), .answer(200, "ok")) { session, server, url in
            var request = HTTPClientRequest(url: url)
            let first = try await session.response(to: request)
            #expect(first.isNewConnection)
            let second = try await session.response(to: request)
            #expect(!second.isNewConnection)
            request.route.group = "other"
            let third = try await session.response(to: request)
            #expect(third.isNewConnection)
            let count = await server.connectionCount
            #expect(count == 2)
        }
    }

    @Test(arguments: [("POST", "x"), ("POST", ""), ("GET", ""), ("PUT", "y")])
    func `a request is sent once, though its kept connection is closed without an answer`(
        method: String, body: String
    ) async throws {
        try await with(.answer(200, "ok"), .close, .answer(200, "ok"), .answer(200, "ok")) { session, server, url in
            let request = HTTPClientRequest(method: method, url: url, body: Array(body.utf8))
            _ = try await session.response(to: request)
            // The second request uses the connection of the first request, and must not be repeated on another
            // connection.
            await #expect(throws: HTTPClientError(.reset, detail: "the kept connection was closed without an answer")) {
                try await session.response(to: request)
            }
            #expect(await server.requestCount() == 2)
            let next = try await session.response(to: request)
            #expect(next.status == 200 && next.isNewConnection)
            #expect(try await session.response(to: request).status == 200)
            #expect(await server.requestCount() == 4)
        }
    }

    @Test func `a request does not wait for the answer to another`() async throws {
        try await with(.silence, .answer(200, "ok")) { session, server, url in
            let first = Task { try await session.response(to: HTTPClientRequest(url: url)) }
            _ = try await server.requests.next()
            let second = try await session.response(to: HTTPClientRequest(url: url))
            #expect(second.status == 200)
            first.cancel()
            _ = await first.result
        }
    }

    @Test func `an interim answer is no answer`() async throws {
        let answer = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        try await with(.bytes(answer)) { session, _, url in
            let response = try await session.response(to: HTTPClientRequest(url: url))
            #expect(response.status == 200)
            #expect(response.header("link") == nil)
        }
    }

    @Test func `redirects are not followed`() async throws {
        let answer = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        try await with(.bytes(answer)) { session, _, url in
            let response = try await session.response(to: HTTPClientRequest(url: url))
            #expect(response.status == 302)
        }
    }

    @Test(arguments: [
        (FakeProvider.Reply.close, HTTPClientError.Code.reset),
        (.bytes("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", closes: true), .reset),
        (.bytes("SSH-2.0-OpenSSH\r\n\r\n"), .badResponse),
        (.bytes("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" + String(repeating: "x", count: 101)), .bodyTooLarge),
        (.bytes("HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "x", count: 101), closes: true), .bodyTooLarge),
        (.bytes("HTTP/1.1 200 OK\r\nX: " + String(repeating: "x", count: 17_000) + "\r\n\r\n"), .badResponse),
    ])
    func `failures have their names`(step: FakeProvider.Reply, code: HTTPClientError.Code) async throws {
        try await with(step) { session, server, url in
            var request = HTTPClientRequest(url: url)
            request.responseLimit = 100
            let error = await #expect(throws: HTTPClientError.self) { try await session.response(to: request) }
            #expect(error?.code == code)
            _ = try await server.requests.next()
        }
    }

    @Test func `a long body can be dropped, and the status counts`() async throws {
        let answer = "HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 10000000\r\n\r\n"
        try await with(.bytes(answer + String(repeating: "x", count: 20_000))) { session, _, url in
            var request = HTTPClientRequest(url: url)
            request.responseLimit = 100
            request.dropsLongBody = true
            let response = try await session.response(to: request)
            #expect(response.status == 429 && response.body.isEmpty && response.header("retry-after") == "7")
        }
    }

    @Test func `a server that does not answer is not waited for longer than allowed`() async throws {
        try await with(.silence) { session, _, url in
            var request = HTTPClientRequest(url: url)
            request.timeout = .milliseconds(50)
            let error = await #expect(throws: HTTPClientError.self) { try await session.response(to: request) }
            #expect(error?.code == .timeout)
        }
    }

    @Test func `a request that is over does not keep its connection`() async throws {
        try await with(.silence, .answer(200, "ok")) { session, _, url in
            var limits = HTTPSession.Limits()
            limits.connectionsPerHost = 1
            let narrow = HTTPSession(on: session.loop, limits: limits)
            var request = HTTPClientRequest(url: url)
            request.timeout = .milliseconds(50)
            let late = await #expect(throws: HTTPClientError.self) { try await narrow.response(to: request) }
            #expect(late?.code == .timeout)
            request.timeout = .seconds(10)
            let response = try await narrow.response(to: request)
            #expect(response.status == 200)
        }
    }

    @Test(arguments: [
        ("127.0.0.2", nil), ("203.0.113.1", HTTPClientError.Code.connect), ("2001:db8::1", .connect),
    ])
    func `requests leave from the source, or not at all`(source: String, failure: HTTPClientError.Code?) async throws {
        try await with(.answer(200, "ok")) { session, _, url in
            var limits = HTTPSession.Limits()
            limits.source = IPAddress(source)
            let bound = HTTPSession(on: session.loop, limits: limits)
            if let failure {
                let error = await #expect(throws: HTTPClientError.self) {
                    try await bound.response(to: HTTPClientRequest(url: url))
                }
                #expect(error?.code == failure)
            } else {
                let response = try await bound.response(to: HTTPClientRequest(url: url))
                #expect(response.status == 200)
            }
        }
    }

    @Test func `a body of exactly the limit is accepted`() async throws {
        try await with(.answer(200, "ok")) { session, _, url in
            var request = HTTPClientRequest(url: url)
            request.responseLimit = 2
            let response = try await session.response(to: request)
            #expect(response.body.count == 2)
        }
    }

    @Test func `a refused connection and an unknown host were not sent`() async throws {
        // The test keeps the port of the closed server reserved, because another test could otherwise listen on the
        // port.
        let port = try #require(ReservedPort.any())
        try await with { session, _, _ in
            let refused = await #expect(throws: HTTPClientError.self) {
                try await session.response(to: HTTPClientRequest(url: "http://127.0.0.1:\(port.number)/"))
            }
            #expect(refused?.code == .connect)
            let unknown = await #expect(throws: HTTPClientError.self) {
                try await session.response(to: HTTPClientRequest(url: "http://no-such-host.invalid/"))
            }
            #expect(unknown?.code == .resolve)
        }
    }

    @Test(arguments: [
        HTTPClientRequest(url: "ftp://127.0.0.1/"), HTTPClientRequest(url: "file:///etc/passwd"),
        HTTPClientRequest(url: "http://127.0.0.1/a b"), HTTPClientRequest(url: "http://127.0.0.1/\r\nX: y"),
        HTTPClientRequest(url: ""), HTTPClientRequest(method: "GET / HTTP/1.1\r\nX:", url: "http://127.0.0.1/"),
        HTTPClientRequest(url: "http://127.0.0.1/", headers: [HTTPField("a", "b\r\nc: d")]),
        HTTPClientRequest(url: "http://127.0.0.1/", headers: [HTTPField("a: b", "c")]),
        HTTPClientRequest(url: "http://127.0.0.1/", headers: [HTTPField("", "c")]),
    ])
    func `malformed requests are refused before they reach a socket`(request: HTTPClientRequest) async throws {
        try await with { session, server, _ in
            let error = await #expect(throws: HTTPClientError.self) { try await session.response(to: request) }
            #expect(error?.code == .invalidRequest)
            let count = await server.connectionCount
            #expect(count == 0)
        }
    }

    @Test func `cancelling the task cancels the request`() async throws {
        try await with(.silence) { session, server, url in
            let task = Task { try await session.response(to: HTTPClientRequest(url: url)) }
            _ = try await server.requests.next()
            task.cancel()
            let error = await #expect(throws: HTTPClientError.self) { try await task.value }
            #expect(error?.code == .cancelled)
        }
    }

    @Test func `closing the session, or releasing it, ends its open requests`() async throws {
        try await with(.silence, .silence) { session, server, url in
            let outcome = Mailbox<HTTPClientError.Code>()
            let loop = session.loop
            var request = HTTPClientRequest(url: url)
            // The timeout is longer than the test takes.
            request.timeout = .seconds(300)
            loop.post { [request] in
                var other: HTTPSession? = HTTPSession(on: loop)
                for each in [session, other] {
                    each?.send(request) { result in
                        if case .failure(let error) = result { outcome.put(error.code) }
                    }
                }
                other = nil
            }
            let first = try await outcome.next()
            #expect(first == .cancelled)
            _ = try await server.requests.next()
            loop.post { session.close() }
            let second = try await outcome.next()
            #expect(second == .cancelled)
        }
    }

    @Test func `a request may go to another address than its host's`() async throws {
        try await with(.answer(200, "ok")) { session, server, url in
            var request = HTTPClientRequest(
                url: url.replacingOccurrences(of: "127.0.0.1", with: "hooks.example.invalid"))
            request.route.address = .loopbackV4
            let response = try await session.response(to: request)
            #expect(response.status == 200)
            let text = try await server.requests.next().text
            #expect(text.contains("Host: hooks.example.invalid:"))
        }
    }

    @Test func `a tool can wait for an answer over a Unix-domain socket`() async throws {
        try await withLoop { loop in
            let folder = try TemporaryFolder()
            defer { folder.remove() }
            let path = folder.file("socket")
            let server = FakeProvider(loop) { _, _ in .answer(200, "ok") }
            try await server.listen(unixPath: path)
            var request = HTTPClientRequest(url: "http://sippushd/status")
            request.route.unixSocketPath = path
            let response = try HTTPSession.wait(for: request)
            #expect(response.body == Array("ok".utf8))
            request.route.unixSocketPath = path + ".none"
            let error = #expect(throws: HTTPClientError.self) { try HTTPSession.wait(for: request) }
            #expect(error?.code == .connect)
            await server.close()
        }
    }

    @Test func `a server is trusted by its authority and for its name only`() async throws {
        let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let file = try folder.write(identity.certificate, to: "ca.pem")
        let context = try TLSContext.server(
            certificate: .bytes(identity.certificate), key: .bytes(identity.key), protocols: ["http/1.1"])
        try await with(.answer(200, "ok"), tls: context) { session, _, url in
            var request = HTTPClientRequest(url: url)
            let untrusted = await #expect(throws: HTTPClientError.self) { try await session.response(to: request) }
            #expect(untrusted?.code == .tls)
            request.route.authorityFile = file
            let response = try await session.response(to: request)
            #expect(response.status == 200)
            request.url = url.replacingOccurrences(of: "127.0.0.1", with: "127.0.0.2")
            request.route.address = .loopbackV4
            let misnamed = await #expect(throws: HTTPClientError.self) { try await session.response(to: request) }
            #expect(misnamed?.code == .tls)
        }
    }
}
