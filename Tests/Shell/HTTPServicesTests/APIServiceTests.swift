import ProxyPolicy
import Addressing
import Bytes
import Crypto
import Foundation
import HTTPClient
import HTTPSemantics
import HTTPServer
import LoopTesting
import ProviderTesting
import ProxyCore
import Reactor
import Telemetry
import Testing
import TestSupport
import Timekeeping

@testable import HTTPServices
@testable import ProxyRuntime

@Suite("HTTP API", .timeLimit(.minutes(10)))
struct APIServiceTests {
    /// An API with a few HTTP routes and two keys, on a port of its own.
    private final class Fixture: Sendable {
        let endpoint: Endpoint
        let session: HTTPSession
        let logSink = MemoryLogSink()
        let reader: APIKeySecret
        let admin: APIKeySecret
        /// A key with the scope admin for a.example.
        let branch: APIKeySecret
        private let kept: Kept

        /// Owns the API service, so that the service lives as long as the fixture. The type is `@unchecked Sendable`,
        /// because only the loop's thread uses the service.
        private struct Kept: @unchecked Sendable {
            let service: APIService
        }

        init(_ loop: EventLoop, tls: (cert: String, key: String)? = nil, ready: Bool = true) async throws {
            let (reader, admin) = (try APIKeySecret.make(), try APIKeySecret.make())
            self.reader = reader
            self.admin = admin
            let branch = try APIKeySecret.make()
            self.branch = branch
            var settings = APISettings()
            settings.listen = [Endpoint(.loopbackV4, 0)]
            settings.certFile = tls?.cert
            settings.keyFile = tls?.key
            let log = Log(level: .debug, sink: logSink) { UnixTime(milliseconds: 0) }
            let made = try await Bench(loop).run { [settings] bench in
                let date = UnixTime(milliseconds: 0)
                let keys = APIKeyRing(
                    [
                        APIKey(name: "reader", hash: reader.hash, scopes: [.tokensRead], createdAt: date),
                        APIKey(name: "boss", hash: admin.hash, scopes: [.admin], createdAt: date),
                        APIKey(
                            name: "branch", hash: branch.hash, scopes: [.admin], createdAt: date,
                            domains: try #require(DomainScope(domains: ["a.example"]))),
                    ].compactMap(\.self))
                let service = APIService(settings.access(LimitSettings()), loop: bench.loop, keys: keys, log: log)
                SystemRoutes(obstacle: { ready ? nil : "no" }).register(in: &service.router)
                service.router.add("GET", "/v1/things/{}", scope: .tokensRead, domains: .wholeDaemon) {
                    call throws(ServiceProblem) in
                    call.answer([call.parameter(), call.caller.name])
                }
                service.router.add("POST", "/v1/things/{}", scope: .registrations, domains: .wholeDaemon) {
                    call throws(ServiceProblem) in
                    struct Thing: Codable { let size: Int }
                    let thing = try call.body(as: Thing.self, expected: "size")
                    // The handler answers later, and from another thread.
                    Task { call.answer(thing, status: 201) }
                }
                service.router.add("GET", "/v1/forgetful/{}", scope: .tokensRead, domains: .byDomain) {
                    call throws(ServiceProblem) in
                    guard call.parameter() != "unknown" else { throw ServiceProblem(404, "no such thing") }
                    call.answer(["secret of b.example"])
                }
                service.router.add("GET", "/v1/asking/{}", scope: .tokensRead, domains: .byDomain) {
                    call throws(ServiceProblem) in
                    guard call.domains.permits(ByteString(call.parameter())) else {
                        throw ServiceProblem(404, "no such thing")
                    }
                    call.answer([call.parameter()])
                }
                try service.listen()
                return (Kept(service: service), service.endpoints, HTTPSession(on: bench.loop))
            }
            kept = made.0
            endpoint = try #require(made.1.first)
            session = made.2
        }

        func response(
            _ method: String, _ target: String, key: String? = nil, body: String = "", headers: [HTTPField] = []
        ) async throws -> HTTPClientResponse {
            var headers = headers
            if let key { headers.append(HTTPField("Authorization", key)) }
            return try await session.response(
                to: HTTPClientRequest(
                    method: method, url: "http://\(endpoint)\(target)", headers: headers, body: Array(body.utf8)))
        }

        func reloadCertificate(_ loop: EventLoop) async {
            await Bench(loop).run { _ in kept.service.reloadCertificate() }
        }

        func close(_ loop: EventLoop) async {
            await Bench(loop).run { _ in
                session.close()
                kept.service.close()
            }
        }
    }

    private func withAPI(ready: Bool = true, _ body: (Fixture) async throws -> Void) async throws {
        try await withLoop { loop in
            let fixture = try await Fixture(loop, ready: ready)
            try await body(fixture)
            await fixture.close(loop)
        }
    }

    /// Sends a raw request, because HTTP clients normalize paths before they send a request.
    ///
    /// - Returns: the status of the response.
    private func status(of target: String, _ fixture: Fixture) async throws -> String {
        let answer = try await TCPClient.answer(
            to: "GET \(target) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", from: fixture.endpoint)
        return String(answer.dropFirst(9).prefix(3))
    }

    // MARK: Keys

    @Test func `a key that names domains is refused unless the route asks for its domains`() async throws {
        try await withAPI { api in
            let (branch, boss) = ("Bearer \(api.branch.text)", "Bearer \(api.admin.text)")
            for method in ["GET", "POST"] {
                let refused = try await api.response(method, "/v1/things/7", key: branch, body: #"{"size":1}"#)
                #expect(refused.status == 403)
                #expect(String(decoding: refused.body, as: UTF8.self).contains("this key is only for some domains"))
            }
            let changes = api.logSink.lines.filter { $0.contains("an API request made a change") }
            #expect(changes.count == 1 && changes[0].contains("api-key=branch") && changes[0].contains("status=403"))
            // Only keys for the whole daemon get the answer of a route whose code never asks for the key's domains.
            let forgotten = try await api.response("GET", "/v1/forgetful/7", key: branch)
            #expect(forgotten.status == 403 && !String(decoding: forgotten.body, as: UTF8.self).contains("secret"))
            #expect(try await api.response("GET", "/v1/forgetful/unknown", key: branch).status == 404)
            #expect(try await api.response("GET", "/v1/forgetful/7", key: boss).status == 200)
            #expect(try await api.response("GET", "/v1/asking/A.example", key: branch).status == 200)
            #expect(try await api.response("GET", "/v1/asking/b.example", key: branch).status == 404)
            #expect(try await api.response("GET", "/v1/asking/b.example", key: boss).status == 200)
            // An HTTP route that needs no key serves requests with any key.
            #expect(try await api.response("GET", "/version", key: branch).status == 200)
        }
    }

    @Test func `a key with the scope is let in, admin everywhere`() async throws {
        try await withAPI { api in
            for (secret, name) in [(api.reader, "reader"), (api.admin, "boss")] {
                for scheme in ["Bearer", "bearer"] {
                    let response = try await api.response("GET", "/v1/things/7", key: "\(scheme) \(secret.text)")
                    #expect(response.status == 200)
                    #expect(String(decoding: response.body, as: UTF8.self) == #"["7","\#(name)"]"#)
                }
            }
        }
    }

    @Test func `without a known key there is 401, with a key for other things 403`() async throws {
        try await withAPI { api in
            let unknown = try APIKeySecret.make().text
            let none = try await api.response("GET", "/v1/things/7")
            #expect(none.status == 401)
            #expect(none.header("www-authenticate") == #"Bearer realm="sippushd""#)
            #expect(none.header("content-type") == "application/problem+json")
            for value in [
                "Bearer \(unknown)", "Bearer", "Bearer ", "Basic \(api.reader.text)", api.reader.text,
                "Bearer \(api.reader.text)x", "Bearer \(api.reader.text.lowercased())",
                "Bearer \(api.reader.text) \(api.reader.text)", "Bearer \(api.reader.text.dropLast())",
            ] {
                let response = try await api.response("GET", "/v1/things/7", key: value)
                #expect(response.status == 401)
                let challenge = response.header("www-authenticate") ?? ""
                #expect(challenge.hasPrefix("Bearer "))
            }
            let twice = try await api.response(
                "GET", "/v1/things/7", key: "Bearer \(api.reader.text)",
                headers: [HTTPField("Authorization", "Bearer \(api.admin.text)")])
            #expect(twice.status == 401)
            let other = try await api.response(
                "POST", "/v1/things/7", key: "Bearer \(api.reader.text)", body: #"{"size":1}"#)
            #expect(other.status == 403)
            #expect(other.header("www-authenticate")?.contains(#"scope="registrations""#) == true)
        }
    }

    @Test(arguments: [
        "//v1/things/7", "/v1//things/7", "/v1/things/7/", "/v1%2fthings/7", "/v1/things%2F7", "/v1/x/../things/7",
        "/v1/%2e%2e/things/7", "/v1/./things/7", "/v1/things/7%00", "/v1/things/7%5c", "/v1/things/%ff",
        "/V1/things/7", "/v1/things", "/v1/things/7/8", "/", "/healthz/../v1/things/7", "/healthz%2f",
    ])
    func `no notation of a path avoids the key`(target: String) async throws {
        try await withAPI { api in
            let status = try await status(of: target, api)
            #expect(status == "400" || status == "404")
        }
    }

    @Test func `other spellings of the host lead to the same question`() async throws {
        try await withAPI { api in
            for target in [
                "/v1/things/7", "http://x/v1/things/7", "/v1/%74hings/7", "/v1/things/7?x", "/v1/things/7#x",
            ] {
                let status = try await status(of: target, api)
                #expect(status == "401")
            }
        }
    }

    // MARK: Answers

    @Test func `probes need no key`() async throws {
        try await withAPI { api in
            for target in ["/healthz", "/readyz", "/version"] {
                let response = try await api.response("GET", target)
                #expect(response.status == 200)
            }
            let version = try await api.response("GET", "/version")
            let report = try JSONDecoder().decode([String: String].self, from: Data(version.body))
            #expect(report == ["version": Version.current, "commit": Version.commit])
            #expect(!Version.commit.isEmpty)
        }
        try await withAPI(ready: false) { api in
            let statuses = try await (api.response("GET", "/healthz").status, api.response("GET", "/readyz").status)
            #expect(statuses == (200, 503))
        }
    }

    @Test func `problems are problem details, and methods are named`() async throws {
        try await withAPI { api in
            let missing = try await api.response("GET", "/v1/nothing")
            let problem = try JSONDecoder().decode(ServiceProblem.self, from: Data(missing.body))
            #expect(problem.status == 404 && missing.status == 404)
            let other = try await api.response("DELETE", "/v1/things/7")
            #expect(other.status == 405)
            #expect(other.header("allow") == "GET, POST")
        }
    }

    @Test(arguments: [
        (#"{"size":3}"#, 201), ("", 400), ("{", 400), ("[]", 400), (#"{"size":"x"}"#, 400), (#"{"size":1e99}"#, 400),
        (#"{"size":3} x"#, 400), (String(repeating: "[", count: 100_000), 400), ("\u{0}", 400),
        (#"{"a":"# + String(repeating: "[", count: 40) + String(repeating: "]", count: 40) + "}", 400),
    ])
    func `bodies are read strictly, and no body causes a server error`(body: String, status: Int) async throws {
        try await withAPI { api in
            let response = try await api.response("POST", "/v1/things/7", key: "Bearer \(api.admin.text)", body: body)
            #expect(response.status == status)
        }
    }

    // MARK: The log

    @Test func `each change is logged with its key and without its content`() async throws {
        try await withAPI { api in
            _ = try await api.response(
                "POST", "/v1/things/secret-thing?secret-query", key: "Bearer \(api.admin.text)",
                body: #"{"size":3,"x":"secret-body"}"#)
            _ = try await api.response("POST", "/v1/things/8", key: "Bearer \(api.reader.text)")
            _ = try await api.response("GET", "/v1/things/9", key: "Bearer \(api.reader.text)")
            let changes = api.logSink.lines.filter { $0.contains("an API request made a change") }
            #expect(changes.count == 2)
            #expect(changes.first?.contains("api-key=boss") == true)
            #expect(changes.first?.contains("method=POST route=/v1/things/{} object=- status=201") == true)
            #expect(changes.last?.contains("api-key=reader") == true)
            #expect(changes.last?.contains("status=403") == true)
            for line in api.logSink.lines {
                #expect(!line.contains("secret") && !line.contains(api.admin.text) && !line.contains(api.reader.text))
            }
        }
    }

    // MARK: TLS

    @Test func `with a certificate it speaks TLS, and takes a renewed one`() async throws {
        try await withFolder { folder in
            let paths = (cert: folder.path + "/cert.pem", key: folder.path + "/key.pem")
            func renew(_ name: String) throws {
                let made = try SelfSignedCertificate(hosts: ["127.0.0.1"])
                try Data(made.certificate).write(to: URL(filePath: paths.cert))
                try Data(made.certificate).write(to: URL(filePath: folder.path + "/" + name))
                try Data(made.key).write(to: URL(filePath: paths.key))
            }
            /// Whether the server presents a certificate with the given name to a new connection.
            func isServed(_ name: String, _ api: Fixture) async throws -> Bool {
                var request = HTTPClientRequest(url: "https://\(api.endpoint)/healthz")
                request.route.authorityFile = folder.path + "/" + name
                request.headers = [HTTPField("Connection", "close")]
                return (try? await api.session.response(to: request).status) == 200
            }
            try renew("first")
            try await withLoop { loop in
                let api = try await Fixture(loop, tls: paths)
                #expect(try await isServed("first", api))
                try renew("second")
                #expect(try await isServed("first", api))
                await api.reloadCertificate(loop)
                #expect(try await isServed("second", api))
                #expect(try await !isServed("first", api))
                // The API keeps its certificate if the new files cannot be read.
                try Data("none".utf8).write(to: URL(filePath: paths.cert))
                await api.reloadCertificate(loop)
                #expect(try await isServed("second", api))
                #expect(
                    api.logSink.lines.contains {
                        $0.contains("the certificate was not reloaded, so the old certificate stays in use")
                    })
                await api.close(loop)
            }
        }
    }
}
