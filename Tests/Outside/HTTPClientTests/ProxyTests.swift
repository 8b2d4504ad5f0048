import Addressing
import Crypto
import Foundation
import HTTPClient
import HTTPSemantics
import LoopTesting
import ProviderTesting
import Reactor
import TestSupport
import Testing

/// A server, an HTTP proxy and an HTTP session. The session must use the proxy to reach the server, because only the
/// proxy can resolve the name of the server.
private struct ProxyFixture {
    let session: HTTPSession
    let proxy: FakeProxy
    let request: HTTPClientRequest
    let version: HTTPRoute.Version

    /// Runs a test with a server, a proxy, and a session that sends its requests over the HTTP version `version`.
    static func with(
        _ version: HTTPRoute.Version, _ behaviour: FakeProxy.Behaviour, login: HTTPProxy.Login? = nil,
        _ body: (ProxyFixture) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                let host = "push.invalid"
                let identity = try SelfSignedCertificate(hosts: [host])
                let context = try TLSContext.server(
                    certificate: .bytes(identity.certificate), key: .bytes(identity.key),
                    protocols: version == .http2 ? ["h2"] : ["http/1.1"])
                let h2 = FakeHTTP2Server(loop, answersAll: true)
                let h1 = FakeProvider(loop) { _, _ in .answer(200, "yes") }
                let url = try await version == .http2 ? h2.listen(context) : h1.listen(tls: context)
                let port = try #require(UInt16(url.split(separator: ":").last ?? ""))
                let proxy = FakeProxy(loop, behaviour)
                let place = try await proxy.listen()
                let session = HTTPSession(on: loop)
                let file = folder.path + "/ca.pem"
                try Data(identity.certificate).write(to: URL(fileURLWithPath: file))
                var request = HTTPClientRequest(
                    method: "POST", url: "https://\(host):\(port)/3/device/a",
                    headers: [HTTPField("authorization", "bearer provider-secret")], body: [1])
                request.route.version = version
                request.route.authorityFile = file
                request.route.proxy = HTTPProxy(host: "127.0.0.1", port: place, login: login)
                request.timeout = .seconds(2)
                request.connectTimeout = .seconds(2)
                try await body(ProxyFixture(session: session, proxy: proxy, request: request, version: version))
                await Bench(loop).run { _ in session.close() }
                await proxy.close()
                await h1.close()
                await h2.close()
            }
        }
    }

    func error(_ change: (inout HTTPClientRequest) -> Void = { _ in }) async throws -> HTTPClientError {
        var request = request
        change(&request)
        let error = await #expect(throws: HTTPClientError.self) { try await session.response(to: request) }
        return try #require(error)
    }
}

private let versions: [HTTPRoute.Version] = [.http1, .http2]

@Suite("Requests through an HTTP proxy", .timeLimit(.minutes(10)))
struct ProxyTests {
    @Test(arguments: versions)
    func `the proxy is asked for the server by its name, and nothing else is for the proxy`(
        version: HTTPRoute.Version
    ) async throws {
        try await ProxyFixture.with(version, .leads) { (fixture) async throws in
            for _ in 1...3 {
                let response = try await fixture.session.response(to: fixture.request)
                #expect(response.status == 200)
                #expect(response.version == version)
            }
            let server = fixture.request.url.split(separator: "/")[1]
            let head = try await fixture.proxy.requests.next()
            #expect(head.hasPrefix("CONNECT \(server) HTTP/1.1\r\n"))
            #expect(head.contains("\r\nHost: \(server)\r\n"))
            #expect(!head.lowercased().contains("authorization") && !head.contains("secret"))
            // All requests used one connection to the proxy.
            #expect(await fixture.proxy.requestCount == 1)
        }
    }

    @Test(arguments: versions)
    func `an answer in single bytes is one answer`(version: HTTPRoute.Version) async throws {
        try await ProxyFixture.with(version, .dribbles) { (fixture) async throws in
            #expect(try await fixture.session.response(to: fixture.request).status == 200)
        }
    }

    @Test(arguments: versions)
    func `user and password open it`(version: HTTPRoute.Version) async throws {
        let login = HTTPProxy.Login(user: "daemon", password: "p@ss:word")
        // The expected credentials are the base64 of `daemon:p@ss:word`.
        try await ProxyFixture.with(version, .wants("ZGFlbW9uOnBAc3M6d29yZA=="), login: login) {
            (fixture) async throws in
            #expect(try await fixture.session.response(to: fixture.request).status == 200)
        }
    }

    @Test(arguments: versions)
    func `a wrong password is told as the proxy's refusal, without the password`(
        version: HTTPRoute.Version
    ) async throws {
        let login = HTTPProxy.Login(user: "daemon", password: "hidden")
        try await ProxyFixture.with(version, .wants("x"), login: login) { (fixture) async throws in
            let error = try await fixture.error()
            #expect(error.code == .proxyRefused)
            #expect(error.sentence.contains("refuses our login (407): check user and password in the setting proxy"))
            for text in ["\(error)", error.sentence, "\(login)", "\(fixture.request.route)"] {
                #expect(!text.contains("hidden") && !text.contains("daemon"), "\(text)")
            }
            let without = try await fixture.error {
                $0.route.proxy = $0.route.proxy.map { HTTPProxy(host: $0.host, port: $0.port) }
            }
            #expect(without.sentence.contains("refuses requests without a login (407)"))
        }
    }

    @Test(
        arguments: versions,
        [
            (
                "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", HTTPClientError.Code.proxy,
                "cannot reach this server (502)"
            ),
            ("HTTP/1.0 403 Forbidden\r\n\r\n", .proxyRefused, "forbids this server (403): allow CONNECT"),
            ("SSH-2.0-OpenSSH_9.2\r\n\r\n", .proxy, "does not answer in HTTP"),
            ("\u{0}\u{1}\u{2}garbage\r\n\r\n\r\n", .proxy, "does not answer in HTTP"),
        ])
    func `what the proxy answers is told as the proxy's`(
        version: HTTPRoute.Version, answer: (text: String, code: HTTPClientError.Code, words: String)
    ) async throws {
        try await ProxyFixture.with(version, .answers(answer.text)) { (fixture) async throws in
            let error = try await fixture.error()
            #expect(error.code == answer.code, "\(error)")
            #expect(error.sentence.contains("the proxy 127.0.0.1:"), "\(error)")
            #expect(error.sentence.contains(answer.words), "\(error)")
        }
    }

    @Test(arguments: versions)
    func `a proxy that says nothing is told as silent, at the deadline`(version: HTTPRoute.Version) async throws {
        try await ProxyFixture.with(version, .hangs) { (fixture) async throws in
            let error = try await fixture.error {
                $0.timeout = .milliseconds(300); $0.connectTimeout = .milliseconds(300)
            }
            #expect(error.code == .proxy)
            #expect(error.sentence.contains("does not answer in time"), "\(error)")
        }
    }

    @Test(arguments: versions)
    func `a proxy that closes, and one that is not there, are told apart`(version: HTTPRoute.Version) async throws {
        try await ProxyFixture.with(version, .closes) { (fixture) async throws in
            let error = try await fixture.error()
            #expect(error.code == .proxy && error.sentence.contains("closes the connection"), "\(error)")
            await fixture.proxy.close()
            let gone = try await fixture.error()
            #expect(gone.code == .proxy && gone.sentence.contains("cannot be reached (Connection refused)"), "\(gone)")
            let nameless = try await fixture.error { $0.route.proxy = HTTPProxy(host: "proxy.invalid", port: 3128) }
            #expect(nameless.code == .proxy, "\(nameless)")
            #expect(nameless.sentence.contains("the proxy proxy.invalid:3128 cannot be resolved"), "\(nameless)")
        }
    }

    @Test(arguments: versions)
    func `ten megabytes of head are refused early`(version: HTTPRoute.Version) async throws {
        try await ProxyFixture.with(version, .longHead(10 << 20)) { (fixture) async throws in
            let error = try await fixture.error {
                $0.timeout = .seconds(60); $0.connectTimeout = .seconds(60)
            }
            #expect(error.code == .proxy)
            #expect(error.sentence.contains("a head of more than 16 KiB"), "\(error)")
        }
    }

    @Test(arguments: versions)
    func `after a refusal the next request asks again`(version: HTTPRoute.Version) async throws {
        try await ProxyFixture.with(version, .answers("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n")) {
            (fixture) async throws in
            #expect(try await fixture.error().code == .proxy)
            await fixture.proxy.behave(.leads)
            #expect(try await fixture.session.response(to: fixture.request).status == 200)
        }
    }

    @Test func `bytes behind the proxy's agreement belong to the server`() throws {
        let tunnel = HTTPProxy(host: "::1", port: 3128).tunnel(to: try #require(RequestTarget("https://a.example")))
        #expect(String(decoding: tunnel.request, as: UTF8.self).hasPrefix("CONNECT a.example:443 HTTP/1.1\r\n"))
        let head = Array("HTTP/1.1 200 OK\r\na: b\r\n\r\n".utf8)
        #expect(tunnel.judge(head + [22, 3, 1]) == .open(length: head.count))
        for end in 0..<head.count { #expect(tunnel.judge(Array(head.prefix(end))) == .incomplete) }
        for garbage in ["HTTP/2 200\n\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"] {
            #expect(tunnel.judge(Array(garbage.utf8)) == .garbled)
        }
    }
}
