import Addressing
import Crypto
import Foundation
import Glibc
import HTTPClient
import LoopTesting
import ProxyDaemon
import Telemetry
import Testing
import StoreTesting
import TestSupport

@testable import HTTPServices

extension RunningDaemonSuites {
    /// Tests that each log line "an API request made a change" names the change and the key of the request (T35.6).
    @Suite("Audit lines", .timeLimit(.minutes(10)))
    struct AuditTests {
        private static let organisation = "/api/v1.0/orgs/org/pushdeviceregistration"
        private static let appID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
        private static let push = "11111111-2222-4333-8444-555555555555"

        private static let settings: @Sendable (inout DaemonSettings) -> Void = { settings in
            var app = MobileAppSettings()
            app.id = appID
            app.organisation = "org"
            app.googleParam = "p"
            app.tokenHashes = [HashAlgorithm.sha256.digest(of: Array("tok".utf8))]
            settings.api.mobileApps["shop"] = app
            settings.api.notifications.enabled = true
            settings.admin.listen = [Endpoint(.loopbackV4, 0)]
        }

        private struct Request {
            let target: String
            var body = ""
            var type = "application/json"
            var key: String?
            /// The object that the log line must name.
            let object: String
            let actor: String
        }

        private func register(_ path: String, _ body: String) -> Request {
            Request(
                target: Self.organisation + path, body: body, object: "carol",
                actor: "app:\(Self.appID)")
        }

        /// Makes a request that changes something on the HTTP route `route`; `nil` if the test does not know the route.
        private func request(_ route: RunningDaemon.Route, _ daemon: RunningDaemon) -> Request? {
            let hash = String(repeating: "0", count: 64)
            func admin(_ target: String, _ body: String = "", _ object: String) -> Request {
                Request(target: target, body: body, key: RunningDaemon.adminKey, object: object, actor: "boss")
            }
            let item = #"{"MobileAppId":"\#(Self.appID)","UserId":"carol","ApiToken":"tok""#
            let mark = #"{"device":"/api/v1/devices/unknown/"}"#
            let message = #"{"verb":"NotifyGenericTextMessage","AppId":"a","DeviceToken":"QVBB","Message":"m"}"#
            let tokens = "selector=S1&pushToken=QVBBOTFi&appid=a"
            switch (route.method, route.pattern) {
            case ("PUT", "/v1/users"):
                return admin("/v1/users", #"{"name":"carol@example.net","password":"p"}"#, "carol@example.net")
            case ("DELETE", "/v1/users/{}"): return admin("/v1/users/carol@example.net", "", "carol@example.net")
            case ("DELETE", "/v1/users/{}/devices/{}"):
                return admin("/v1/users/100@example.net/devices/x", "", "100@example.net")
            case ("PUT", "/v1/users/{}/rules"):
                return admin("/v1/users/100@example.net/rules", "{}", "rules of 100@example.net")
            case ("DELETE", "/v1/users/{}/rules"):
                return admin("/v1/users/100@example.net/rules", "", "rules of 100@example.net")
            case (_, "/v1/users/{}/provisioning"):
                return admin("/v1/users/100@example.net/provisioning", "", "100@example.net")
            case ("DELETE", "/v1/users/{}/bucket"):
                return admin("/v1/users/100@example.net/bucket", "", "100@example.net")
            case ("DELETE", "/v1/messages/{}"): return admin("/v1/messages/7", "", "message 7")
            case ("DELETE", "/v1/held/{}"): return admin("/v1/held/call1", "", "call call1")
            case ("POST", "/v1/upstream/{}/retry"):
                return admin("/v1/upstream/bob@example.net/retry", "", "bob@example.net")
            case ("POST", "/v1/providers/{}/disable"): return admin("/v1/providers/acrobits/disable", "", "acrobits")
            case ("POST", "/v1/providers/{}/pause"): return admin("/v1/providers/acrobits/pause", "", "acrobits")
            case ("POST", "/v1/providers/{}/resume"): return admin("/v1/providers/acrobits/resume", "", "acrobits")
            case ("POST", "/v1/providers/{}/enable"): return admin("/v1/providers/acrobits/enable", "", "acrobits")
            case ("PUT", "/v1/apikeys"):
                return admin(
                    "/v1/apikeys", #"{"name":"k1","hash":"\#(hash)","scopes":"metrics"}"#, "k1 metrics")
            case ("DELETE", "/v1/apikeys/{}"): return admin("/v1/apikeys/k1", "", "k1")
            case ("PUT", "/v1/apps"):
                let app = #"{"name":"a1","id":"0a1b2c3d-4e5f-6071-8293-000000000000","org":"o","hash":"\#(hash)"}"#
                return admin("/v1/apps", app, "a1")
            case ("DELETE", "/v1/apps/{}"): return admin("/v1/apps/a1", "", "a1")
            case ("POST", "/v1/push-tests"):
                return admin("/v1/push-tests", #"{"user":"100@example.net"}"#, "100@example.net")
            case ("POST", "/v1/feedback/pull"): return admin("/v1/feedback/pull", "", "feedback service")
            // The command to drain is invalid, because a valid command would end the daemon.
            case ("POST", "/v1/drain"): return admin("/v1/drain?within=x", "", "the daemon")
            case ("POST", "/pnm2/send"):
                return Request(
                    target: "/pnm2/send", body: message, key: RunningDaemon.senderKey, object: "device", actor: "sender"
                )
            case ("POST", "/pnm2"):
                return Request(
                    target: "/pnm2", body: "verb=NotifyGenericTextMessage&AppId=a&DeviceToken=QVBB&Message=m",
                    type: "application/x-www-form-urlencoded", key: RunningDaemon.senderKey, object: "device",
                    actor: "sender")
            case (_, let pattern) where pattern.hasPrefix("/api/v1/notifications"):
                return Request(
                    target: pattern, body: #"{"title":"t","users":["100@example.net"]}"#, key: RunningDaemon.senderKey,
                    object: "100@example.net", actor: "sender")
            case (_, let pattern) where pattern.hasPrefix("/api/v1/pushes/all_read"):
                return Request(
                    target: pattern, body: mark, key: RunningDaemon.senderKey, object: "device", actor: "sender")
            case (_, let pattern) where pattern.hasPrefix("/api/v1/pushes/{}"):
                return Request(
                    target: pattern.replacing("{}", with: Self.push), body: mark, key: RunningDaemon.senderKey,
                    object: "push \(Self.push)", actor: "sender")
            case (_, let pattern) where pattern.contains("pushdeviceregistration"):
                let path = String(pattern.split(separator: "pushdeviceregistration").last ?? "")
                let isBatch = path.hasSuffix("batch")
                let whole = item + (path.contains("cleanup") ? "}" : #","FcmDeviceToken":"t"}"#)
                return register(path, isBatch ? "[\(whole)]" : whole)
            case (let method, let pattern) where daemon.routes.contains(route):
                // Routes that report tokens or remove accounts.
                var path = pattern
                for value in ["100", "S1"] {
                    if let place = path.firstRange(of: "{}") { path.replaceSubrange(place, with: value) }
                }
                path = path.replacing("{*}", with: "QVBBOTFi")
                let form = "username=100&" + tokens
                return Request(
                    target: method == "GET" ? "\(path)?\(form)" : path, body: method == "GET" ? "" : form,
                    type: "application/x-www-form-urlencoded", key: daemon.key.text, object: "100@example.net",
                    actor: "server")
            default: return nil
            }
        }

        private func lines(_ daemon: RunningDaemon) -> [String] {
            daemon.log.lines.filter { $0.contains("notice an API request made a change") }
        }

        @Test func `of every route that changes something`() async throws {
            try await RunningDaemon.with(Self.settings) { daemon async throws in
                #expect(daemon.changes.count > 60)
                for route in daemon.changes {
                    guard let request = request(route, daemon) else {
                        Issue.record("no request for \(route)")
                        continue
                    }
                    let before = lines(daemon).count
                    let isOfAdmin = !daemon.routes.contains(route)
                    let place = isOfAdmin ? try #require(daemon.admin) : daemon.api
                    let field = request.key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
                    let answer = try await daemon.answer(
                        "\(route.method) \(request.target) HTTP/1.1\r\nHost: a\r\n\(field)Content-Type: \(request.type)\r\n"
                            + "Content-Length: \(request.body.utf8.count)\r\nConnection: close\r\n\r\n\(request.body)",
                        from: place)
                    let found = lines(daemon)
                    #expect(found.count == before + 1, "\(route): \(answer)")
                    let line = try #require(found.last)
                    #expect(
                        line.contains("api-key=\(request.actor) ") && line.contains("method=\(route.method) "),
                        "\(route): \(line)")
                    let object = line.split(separator: " object=").last ?? ""
                    #expect(object.contains(request.object), "\(route): \(line)")
                    #expect(!line.contains("object=- "), "\(route): \(line)")
                }
            }
        }

        @Test(.enabled(if: StoreFolder.isSQLite, "PostgreSQL has its own backups"))
        func `over the control socket with the user of this machine`() async throws {
            try await RunningDaemon.with(Self.settings) { daemon async throws in
                try await withLoop { loop async throws in
                    let session = await Bench(loop).run { HTTPSession(on: $0.loop) }
                    for (target, object) in [
                        ("/v1/backup?file=\(daemon.control).copy", "\(daemon.control).copy"),
                        ("/v1/providers/acrobits/disable", "acrobits"),
                    ] {
                        var request = HTTPClientRequest(method: "POST", url: "http://localhost\(target)")
                        request.route.unixSocketPath = daemon.control
                        request.route.version = .http1
                        #expect(try await session.response(to: request).status == 200)
                        let line = try #require(lines(daemon).last)
                        #expect(line.contains("api-key=\"control socket, uid \(getuid())\""), "\(line)")
                        #expect(line.contains("object=\(object) "), "\(line)")
                    }
                    await Bench(loop).run { _ in session.close() }
                }
            }
        }

        @Test func `a key without permission is named, and its request is not read`() async throws {
            try await RunningDaemon.with(Self.settings) { daemon async throws in
                #expect(
                    try await daemon.order("DELETE", "/v1/users/100@example.net", key: RunningDaemon.readerKey).status
                        == 403)
                let line = try #require(lines(daemon).last)
                #expect(line.contains("api-key=reader ") && line.contains("object=- ") && line.contains("status=403"))
            }
        }

        @Test func `of many users the first are named, and how many more there are`() async throws {
            try await RunningDaemon.with(Self.settings) { daemon async throws in
                let users = (1...9).map { "\"u\($0)\"" }.joined(separator: ",")
                _ = try await daemon.post(
                    "/api/v1/notifications/", #"{"title":"t","users":[\#(users)]}"#, type: "application/json",
                    key: RunningDaemon.senderKey)
                let line = try #require(lines(daemon).last)
                #expect(line.contains("u1, u2, u3") && line.contains("more") && !line.contains("u9"), "\(line)")
            }
        }
    }
}
