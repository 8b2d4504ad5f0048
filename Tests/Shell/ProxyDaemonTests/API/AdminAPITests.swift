import Addressing
import Bytes
import Foundation
import HTTPClient
import HTTPSemantics
import JSON
import LoopTesting
import Persistence
import PushDelivery
import Reactor
import Registration
import Storage
import StoreTesting
import Telemetry
import TestSupport
import Testing

@testable import Control
@testable import HTTPServices
@testable import ProxyDaemon

@Suite("Admin API", .timeLimit(.minutes(10)))
struct AdminAPITests {
    private func withAdmin(
        _ change: @escaping (inout DaemonSettings) -> Void = { _ in }, _ body: (RunningDaemon) async throws -> Void
    ) async throws {
        try await RunningDaemon.with(
            { settings in
                settings.admin.listen = [Endpoint(.loopbackV4, 0)]
                change(&settings)
            }, body)
    }

    /// Lists the method and path of each admin API HTTP route that needs a key. Each parameter in the path of an HTTP
    /// route is replaced by a value.
    private func routes(of daemon: RunningDaemon) async throws -> [(method: String, path: String)] {
        let document = try JSONValue(Array(try await daemon.order("GET", "/openapi.json", key: nil).body.utf8))
        guard case .object(let paths)? = document["paths"] else { return [] }
        return paths.flatMap { path -> [(method: String, path: String)] in
            guard case .object(let operations) = path.value else { return [] }
            return operations.filter { ["admin", "admin.read"].contains($0.value["x-scope"]) }.map { operation in
                (operation.key.uppercased(), path.key.replacing(/\{[a-z]+\}/, with: "x@example.net"))
            }
        }
    }

    private func json(_ text: String) throws -> JSONValue { try JSONValue(Array(text.utf8)) }

    // MARK: Rights

    @Test func `every route needs a key with the scope admin`() async throws {
        try await withAdmin { daemon async throws in
            let routes = try await routes(of: daemon)
            #expect(routes.count >= 20)
            for (method, path) in routes {
                #expect(try await daemon.order(method, path, key: nil).status == 401, "\(method) \(path)")
                #expect(
                    try await daemon.order(method, path, key: RunningDaemon.readerKey).status == 403,
                    "\(method) \(path)")
            }
        }
    }

    @Test(arguments: [
        "//v1/users", "/v1//users", "/v1/%2e%2e/v1/users", "/v1/../v1/users", "/v1/./users", "/v1%2fusers",
        "/v1/users/",
        "/V1/users", "/v1/users%00", "/v1/users%5c", "/healthz/../v1/users", "/healthz%2f..%2fv1/users", "/v1/%75sers",
        "/v1/users;x", "/v1/users?x=/healthz", "/v1/users#/healthz", "http://a/v1/users", "/openapi.json/../v1/users",
        "//metrics", "/metrics%2f", "/metrics/", "/metrics;x", "/v1/../metrics", "/%2e/metrics", "/healthz/../metrics",
        "/healthz%2f..%2fmetrics", "/metrics%00", "/METRICS", "/%6detrics", "/metrics?x", "//a/metrics", "\\metrics",
    ])
    func `no spelling leads round the key`(target: String) async throws {
        try await withAdmin { daemon async throws in
            for key in [nil, RunningDaemon.readerKey] {
                let status = try await daemon.order("GET", target, key: key).status
                #expect([400, 401, 403, 404].contains(status))
            }
        }
    }

    @Test func `the API for application servers has none of these routes`() async throws {
        try await withAdmin { daemon async throws in
            // The API and the admin API both have the report of wakes and the routes of provisioning.
            for (method, path) in try await routes(of: daemon)
            where path != "/v1/reports/wakes" && !path.contains("provision") {
                let answer = try await daemon.answer(
                    "\(method) \(path) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(RunningDaemon.adminKey)\r\n"
                        + "Connection: close\r\n\r\n")
                #expect(answer.hasPrefix("HTTP/1.1 404 "), "\(method) \(path)")
            }
        }
    }

    @Test func `it listens only if the settings ask for it`() async throws {
        try await RunningDaemon.with { daemon async throws in #expect(daemon.admin == nil) }
    }

    @Test func `all users are printed as lines, from any number of pages`() async throws {
        let folder = try StoreFolder()
        let names = (0..<2500).map { "u\(String(10_000 + $0))" }
        try folder.keep(
            names.map {
                .addUser(
                    DigestUser(name: ByteString($0), realm: ByteString("example.net"), ha1: [.md5: ByteString("x")]))
            })
        let daemon = try await RunningDaemon.start(folder) { $0.admin.listen = [Endpoint(.loopbackV4, 0)] }
        let admin = try #require(daemon.admin)
        try await withLoop { loop in
            let session = await Bench(loop).run { HTTPSession(on: $0.loop) }
            var request = HTTPClientRequest(
                url: "http://\(admin)/v1/users?after=u10009@example.net",
                headers: [
                    HTTPField("Accept", "application/x-ndjson"),
                    HTTPField("Authorization", "Bearer \(RunningDaemon.adminKey)"),
                ])
            request.responseLimit = 1 << 20
            let response = try await session.response(to: request)
            #expect(response.status == 200 && response.header("content-type") == "application/x-ndjson")
            #expect(response.header("transfer-encoding") == "chunked")
            let expected = names.dropFirst(10).map { #"{"name":"\#($0)@example.net"}"# + "\n" }.joined()
            #expect(String(decoding: response.body, as: UTF8.self) == expected)
            await Bench(loop).run { _ in session.close() }
        }
        try await daemon.stop()
        folder.remove()
    }

    @Test func `changes leave a line with the key's name, and reads leave none`() async throws {
        try await withAdmin { daemon async throws in
            _ = try await daemon.order("GET", "/v1/users")
            _ = try await daemon.order("PUT", "/v1/users", #"{"name":"9@example.net","password":"very-secret"}"#)
            let lines = daemon.log.lines.filter { $0.contains("an API request made a change") }
            #expect(lines.count == 1)
            let line = try #require(lines.first)
            #expect(line.contains("api-key=boss method=PUT route=/v1/users "), "\(line)")
            #expect(line.contains(" status=200") && line.contains("9@example.net"), "\(line)")
            #expect(!daemon.log.lines.contains { $0.contains("very-secret") })
        }
    }

    // MARK: Users

    @Test func `users are added, listed in pages, and removed`() async throws {
        try await withAdmin { daemon async throws in
            let ha1 =
                #","ha1MD5":"\#(String(repeating: "a", count: 32))","ha1SHA256":"\#(String(repeating: "B", count: 64))"}"#
            #expect(
                try await daemon.order("PUT", "/v1/users", #"{"name":"a@example.net","password":"x"}"#).status == 200)
            #expect(try await daemon.order("PUT", "/v1/users", #"{"name":"b@example.org""# + ha1).status == 200)
            var names: [String] = []
            var after = ""
            while true {
                let page = try json(try await daemon.order("GET", "/v1/users?limit=1" + after).body)
                names += (page["users"]?.array ?? []).compactMap { $0["name"]?.string }
                guard let next = page["next"]?.string else { break }
                after = "&after=" + next
            }
            #expect(names == ["100@example.net", "a@example.net", "b@example.org"])
            #expect(try await daemon.order("GET", "/v1/users/a@example.net").status == 200)
            #expect(try await daemon.order("DELETE", "/v1/users/a@example.net").status == 200)
            #expect(try await daemon.order("GET", "/v1/users/a@example.net").status == 404)
            #expect(try await daemon.order("DELETE", "/v1/users/a@example.net").status == 404)
        }
    }

    @Test(arguments: [
        "{}", #"{"name":"a@example.net"}"#, #"{"name":"a@example.net","password":""}"#,
        #"{"name":"a@elsewhere.net","password":"x"}"#, #"{"name":"a","password":"x"}"#,
        #"{"name":"@example.net","password":"x"}"#, #"{"name":"a/b@example.net","password":"x"}"#,
        #"{"name":"a@example.net","ha1MD5":"00","ha1SHA256":"00"}"#, #"{"name":"a@example.net","password":1}"#,
    ])
    func `invalid users are refused`(body: String) async throws {
        try await withAdmin { daemon async throws in
            #expect(try await daemon.order("PUT", "/v1/users", body).status == 400)
        }
    }

    @Test(arguments: ["limit=0", "limit=1001", "limit=x", "after=nobody", "limit=-1"])
    func `pages have bounds`(query: String) async throws {
        try await withAdmin { daemon async throws in
            #expect(try await daemon.order("GET", "/v1/users?" + query).status == 400)
        }
    }

    // MARK: Devices

    @Test func `a reported device is listed with its token shortened, and can be removed`() async throws {
        try await withAdmin { daemon async throws in
            let token = "dG9rZW4tb2YtYS1waG9uZS10aGF0LWlzLXNlY3JldC1hbmQtbG9uZw=="
            let form = "username=100&selector=s1&token_calls=\(token)&appid_calls=com.example.phone"
            try await daemon.expect(200, post: "/v1/push-tokens", form, key: daemon.key.text)
            let list = try await daemon.order("GET", "/v1/users/100@example.net/devices").body
            let devices = try #require(try json(list).array)
            #expect(devices.count == 1 && devices.first?["flow"] == nil)
            #expect(!list.contains(token.prefix(20)))
            let id = try #require(devices.first?["id"]?.string)
            let path = "/v1/users/100@example.net/devices/"
            #expect(try await daemon.order("DELETE", path + "1").status == 404)
            #expect(try await daemon.order("DELETE", "/v1/users/200@example.net/devices/\(id)").status == 404)
            #expect(try await daemon.order("DELETE", path + id).status == 200)
            #expect(await daemon.bindingCount() == 0)
            #expect(try await daemon.order("DELETE", path + id).status == 404)
        }
    }

    // MARK: Providers

    @Test func `a provider is switched when the store has it, and not before`() async throws {
        let folder = try StoreFolder()
        let daemon = try await RunningDaemon.start(folder) { $0.admin.listen = [Endpoint(.loopbackV4, 0)] }
        try folder.execute("ALTER TABLE provider_switch RENAME TO away")
        #expect(try await daemon.order("POST", "/v1/providers/acrobits/disable").status == 503)
        #expect(try await daemon.order("GET", "/v1/providers").body.contains(#""isEnabled":true"#))
        try folder.execute("ALTER TABLE away RENAME TO provider_switch")
        #expect(try await daemon.order("POST", "/v1/providers/acrobits/disable").status == 200)
        #expect(try folder.number("SELECT enabled FROM provider_switch WHERE name = 'acrobits'") == 0)
        #expect(try await daemon.order("GET", "/v1/providers").body.contains(#""isEnabled":false"#))
        try await daemon.stop()
    }

    @Test func `a pause survives a restart, and is shown wherever an operator looks`() async throws {
        let folder = try StoreFolder()
        var daemon = try await RunningDaemon.start(folder) { $0.admin.listen = [Endpoint(.loopbackV4, 0)] }
        #expect(try await daemon.order("GET", "/readyz").body == #"{"status":"ready"}"#)
        #expect(try await daemon.order("POST", "/v1/providers/acrobits/pause").status == 200)
        try await daemon.stop()
        daemon = try await RunningDaemon.start(folder) { $0.admin.listen = [Endpoint(.loopbackV4, 0)] }
        #expect(try await daemon.order("GET", "/v1/providers").body.contains(#""isEnabled":true,"isPaused":true"#))
        #expect(
            try await daemon.order("GET", "/readyz").body
                == #"{"status":"degraded","detail":"push provider acrobits is paused"}"#)
        let paused = "sippushd_push_provider_paused{provider=\"acrobits\"} "
        #expect(try await daemon.order("GET", "/metrics").body.contains("\(paused)1"))
        #expect(try await daemon.order("POST", "/v1/providers/acrobits/resume").status == 200)
        #expect(try await daemon.order("GET", "/metrics").body.contains("\(paused)0"))
        #expect(try await daemon.order("GET", "/readyz").body == #"{"status":"ready"}"#)
        try await daemon.stop()
    }

    @Test(arguments: ["pause", "resume"])
    func `no pause that crosses a disable wakes the provider`(word: String) async throws {
        let folder = try StoreFolder()
        let daemon = try await RunningDaemon.start(folder) { $0.admin.listen = [Endpoint(.loopbackV4, 0)] }
        @Sendable func order(_ word: String) async throws -> Int {
            try await daemon.order("POST", "/v1/providers/acrobits/\(word)").status
        }
        for round in 0..<20 {
            async let disabled = order("disable")
            async let other = order(word)
            // In the end, the provider must be off, whatever the order in which the two requests arrive.
            let statuses = try await [disabled, other]
            #expect(statuses[0] == 200 && [200, 409].contains(statuses[1]), "round \(round): \(statuses)")
            let isOn = try folder.number("SELECT enabled FROM provider_switch WHERE name = 'acrobits'")
            let list = try await daemon.order("GET", "/v1/providers").body
            #expect(isOn == 0 && list.contains(#""isEnabled":false,"isPaused":false"#), "round \(round): \(list)")
            #expect(try await order("enable") == 200)
        }
        try await daemon.stop()
    }

    @Test func `to switch a provider off says what it ends, before and after`() async throws {
        try await withAdmin { daemon async throws in
            let disable = "/v1/providers/acrobits/disable"
            let counts = #"{"contactsEnded":0,"contactsOrdinary":0}"#
            #expect(try await daemon.order("GET", disable).body == counts)
            #expect(try await daemon.order("GET", "/v1/providers").body.contains(#""isEnabled":true"#))
            #expect(try await daemon.order("POST", disable).body == counts)
            #expect(try await daemon.order("POST", "/v1/providers/acrobits/resume").status == 409)
            #expect(try await daemon.order("POST", "/v1/providers/acrobits/pause").status == 409)
            #expect(try await daemon.order("POST", "/v1/providers/acrobits/enable").status == 200)
            #expect(try await daemon.order("GET", "/v1/providers/apns/disable").status == 409)
            #expect(try await daemon.order("GET", "/v1/providers/none/disable").status == 404)
        }
    }

    // MARK: Other HTTP routes

    @Test func `names with slashes are explained by query`() async throws {
        try await withAdmin { daemon async throws in
            for (target, status) in [
                ("/v1/explain?name=a84b%2F%2F4c%5C@pbx", 200), ("/v1/explain?name=100@example.net&limit=1", 200),
                ("/v1/explain?name=", 400), ("/v1/explain", 400), ("/v1/explain?name=x&limit=0", 400),
                ("/v1/explain/a%2Fb", 400),
            ] {
                #expect(try await daemon.order("GET", target).status == status, "\(target)")
            }
        }
    }

    @Test func `figures are read with a key of their own scope`() async throws {
        try await withAdmin { daemon async throws in
            let secret = try APIKeySecret.make()
            let key = APIKeyRequest(name: "prometheus", secret: secret, scopes: [.metrics])
            let body = String(decoding: try JSONEncoder().encode(key), as: UTF8.self)
            #expect(try await daemon.order("PUT", "/v1/apikeys", body).status == 200)
            #expect(try await daemon.order("GET", "/v1/users", key: secret.text).status == 403)
            #expect(try await daemon.order("GET", "/metrics", key: RunningDaemon.readerKey).status == 403)
            #expect(try await daemon.order("GET", "/metrics", key: nil).status == 401)
            let text = try await daemon.order("GET", "/metrics", key: secret.text).body
            let lines = text.split(separator: "\n")
            #expect(lines.contains("sippushd_http_requests_total 4"))
            #expect(lines.contains("sippushd_http_refused_total 3"))
            #expect(lines.contains("sippushd_store_failures_total 0"))
            #expect(lines.contains("sippushd_bindings 0"))
        }
    }

    @Test func `calls, buckets, providers and explanations answer`() async throws {
        try await withAdmin { daemon async throws in
            #expect(try await daemon.order("GET", "/v1/held").body == #"{"calls":[],"total":0}"#)
            #expect(try await daemon.order("DELETE", "/v1/held/7").status == 404)
            #expect(try await daemon.order("DELETE", "/v1/held/7?status=200").status == 400)
            #expect(try await daemon.order("GET", "/v1/users/100@example.net/bucket").body == "[]")
            #expect(try await daemon.order("DELETE", "/v1/users/100@example.net/bucket").body == #"{"removed":0}"#)
            #expect(try await daemon.order("GET", "/v1/users/100/bucket").status == 404)
            #expect(try await daemon.order("POST", "/v1/providers/acrobits/disable").status == 200)
            #expect(try await daemon.order("GET", "/v1/providers").body.contains(#""isEnabled":false"#))
            #expect(try await daemon.order("POST", "/v1/providers/apns/enable").status == 409)
            #expect(try await daemon.order("POST", "/v1/providers/none/enable").status == 404)
            #expect(try await daemon.order("GET", "/v1/explain/100@example.net").body.contains(#""isKnown":true"#))
            #expect(try await daemon.order("POST", "/v1/feedback/pull").status == 409)
        }
    }
}
