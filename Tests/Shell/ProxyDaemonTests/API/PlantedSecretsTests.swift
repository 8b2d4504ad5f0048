import ProxyPolicy
import Addressing
import Foundation
import HTTPServices
import LoopTesting
import ProviderTesting
import ProxyCore
import PushDelivery
import Settings
import Telemetry
import Testing
import TestSupport

@testable import ProxyDaemon

extension RunningDaemonSuites {
    /// Tests that no password, key or token appears in a log, in output for operators, or in an answer (threat T18).
    @Suite("Secrets of a whole run", .timeLimit(.minutes(10)))
    struct PlantedSecretsTests {
        /// Makes a long secret that appears nowhere else.
        private static func planted(_ name: String) -> String { "planted-\(name)-0123456789" }

        /// The planted secret in base64, the encoding in which apps report tokens.
        private static func base64(_ name: String) -> String { Data(planted(name).utf8).base64EncodedString() }

        private static let names = [
            "server-key", "gateway-key", "gateway-secret", "old-secret", "wrong-password", "new-password", "wrong-key",
            "call-token", "message-token", "path-token", "fcm-token", "gateway-token", "broken-token", "nonce",
            "digest", "api-token", "wrong-api-token", "device-token", "url", "field", "text", "title", "unknown-token",
            "body",
        ]
        private static let key = "spd_" + String(repeating: "W", count: 43)
        private static let secrets =
            names.map(planted) + names.map(base64) + [
                RunningDaemon.password, "se+cret%2B1", RunningDaemon.adminKey, RunningDaemon.readerKey,
                RunningDaemon.senderKey, key, RunningDaemon.apiToken, String(repeating: "e", count: 32),
                String(repeating: "f", count: 64),
            ]

        private static func expectNone(in text: String, _ place: String) {
            for secret in secrets where text.contains(secret) {
                Issue.record("\(secret) in \(place): \(text.prefix(500))")
            }
        }

        /// The provider's replies: all pushes are refused, with their tokens in the answers.
        private static let reply: @Sendable (FakeProvider.Request, Int) -> FakeProvider.Reply = { request, _ in
            if request.path.contains("gateway") { return .answer(400, "no such token \(planted("gateway-token"))") }
            if request.path.contains("fcm") {
                return .answer(200, #"{"results":[{"error":"No token \#(planted("fcm-token"))"}]}"#)
            }
            return .answer(200, #"{"code":400,"response":"No token \#(base64("call-token")) here"}"#)
        }

        private static func change(_ settings: inout DaemonSettings, _ url: String, _ gateway: HTTPPushSettings) {
            RunningDaemon.forHostileInput(&settings)
            settings.admin.listen = [Endpoint(.loopbackV4, 0)]
            settings.trusted = [TrustedPeer("127.0.0.1")].compactMap { $0 }
            settings.call.ringTimeout = .seconds(1)
            settings.api.notifications.enabled = true
            settings.api.deviceRegistration.allowsPlainWebhooks = true
            settings.push.acrobits.endpoint = url
            settings.push.fcm.enabled = true
            settings.push.fcm.bodyFormat = .legacy
            settings.push.fcm.serverKey = Secret(planted("server-key"))
            settings.push.fcm.endpoint = url
            settings.push.http = gateway
        }

        private static func gateway(_ url: String) throws -> HTTPPushSettings {
            try HTTPPushSettings(
                yaml: Array(
                    """
                    enabled: true
                    apps:
                      gateway:
                        url: "\(url)/gateway?t={{token}}"
                        headers: ["x-key: \(planted("gateway-key"))"]
                        body: '{"token":"{{token}}","from":"{{caller}}"}'
                        secret: \(planted("gateway-secret"))
                        previous-secret: \(planted("old-secret"))
                    """.utf8), file: "http.yaml")
        }

        @Test func `are nowhere to be read`() async throws {
            try await withLoop { loop in
                let provider = FakeProvider(loop, reply: Self.reply)
                let outside = Outside(loop)
                _ = try await outside.open()
                let url = try await provider.listen()
                let gateway = try Self.gateway(url)
                let result: Result<Void, any Error>
                do {
                    try await RunningDaemon.with({ Self.change(&$0, url, gateway) }) { daemon in
                        try await requests(daemon)
                        try await calls(daemon, outside)
                        try await reading(daemon)
                        for line in daemon.log.lines { Self.expectNone(in: line, "the log") }
                        // The log must have a line about each kind of event with a secret, which proves that the events
                        // have happened.
                        for word in [
                            "an API request made a change", "an API request was refused",
                            "the push provider rejects the content of a push",
                            "a webhook could not be delivered, so the daemon dropped it",
                        ] {
                            #expect(daemon.log.lines.contains { $0.contains(word) }, "\(word)")
                        }
                    }
                    result = .success(())
                } catch {
                    result = .failure(error)
                }
                await outside.close()
                await provider.close()
                try result.get()
            }
        }

        // MARK: The requests

        /// Sends valid and invalid API requests with secrets in all their parts.
        private func requests(_ daemon: RunningDaemon) async throws {
            let report =
                #""selector":"S:1","token_calls":"\#(Self.base64("call-token"))","appid_calls":"a.voip","#
                + #""token_msgs":"\#(Self.base64("message-token"))","appid_msgs":"a""#
            let wrong = Self.planted("wrong-password")
            let device =
                #""MobileAppId":"\#(RunningDaemon.app)","UserId":"100","FcmDeviceToken":"\#(Self.planted("device-token"))""#
            let callback = [
                "x-ms-callback-url: http://192.0.2.1/\(Self.planted("url"))",
                #"x-ms-callback-url-headers: {"x":"\#(Self.planted("field"))"}"#,
            ]
            let key = "Authorization: Bearer \(RunningDaemon.adminKey)"
            let all: [(String, String, [String])] = [
                (
                    "/v1/push-tokens", #"{"username":"100","password":"se cret+1",\#(report)}"#,
                    ["Content-Type: application/json"]
                ),
                (
                    "/v1/push-tokens", #"{"username":"100","password":"\#(wrong)",\#(report)}"#,
                    ["Content-Type: application/json"]
                ),
                (
                    "/v1/push-tokens", #"{"username":"100","password":"se cret+1",\#(report)"#,
                    ["Content-Type: application/json"]
                ),
                ("/v1/push-tokens?username=100&password=se+cret%2B1&token=\(Self.planted("body"))", "", []),
                ("/v1/push-tokens/100/S:2/\(Self.base64("path-token"))&appid=a?password=\(wrong)", "", []),
                ("/v1/push-tokens/100/S:2/\(Self.base64("path-token"))&appid=a", "", [key]),
                ("/v1/push-tokens", "username=100", ["Authorization: Bearer \(Self.key)"]),
                ("/v1/push-tokens", "username=100", ["Authorization: \(Self.planted("wrong-key"))"]),
                (RunningDaemon.registration, #"{\#(device),"ApiToken":"api-token-1"}"#, callback),
                (
                    RunningDaemon.registration, #"{\#(device),"ApiToken":"\#(Self.planted("wrong-api-token"))"}"#,
                    callback
                ),
                (RunningDaemon.registration, #"{\#(device),"ApiToken":7,"x":"\#(Self.planted("api-token"))"}"#, []),
                (
                    "/api/v1/notifications/",
                    #"{"users":["100"],"message":"\#(Self.planted("text"))","title":"\#(Self.planted("title"))"}"#,
                    [key]
                ),
                ("/api/v1/notifications/", #"{"users":["100"],"message":"\#(Self.planted("text"))","ttl":-1}"#, [key]),
                (
                    "/pnm2/send",
                    #"{"verb":"NotifyGenericTextMessage","AppId":"a","DeviceToken":"\#(Self.planted("unknown-token"))","#
                        + #""Message":"\#(Self.planted("text"))"}"#, [key, "Content-Type: application/json"]
                ),
                ("/api/v1/devices/", #"{"token":"\#(Self.planted("unknown-token"))","platform":"ios"}"#, [key]),
                ("/api/v1/pushes/\(Self.planted("body"))/read/", #"{"device":"\#(Self.planted("body"))"}"#, [key]),
                ("/api/v1/pushes/all_read/", #"{"device":"\#(Self.planted("body"))"#, [key]),
            ]
            for (target, body, fields) in all {
                let answer = try await daemon.answer(RunningDaemon.post(target, Array(body.utf8), fields))
                #expect(RunningDaemon.statuses(answer).count == 1, "\(target)")
                Self.expectNone(in: answer, target)
            }
            let hashes =
                #""ha1MD5":"\#(String(repeating: "e", count: 32))","ha1SHA256":"\#(String(repeating: "f", count: 64))""#
            for (target, body) in [
                ("/v1/users", #"{"name":"8@example.net","password":"\#(Self.planted("new-password"))"}"#),
                ("/v1/users", #"{"name":"9@example.net",\#(hashes)}"#),
                ("/v1/users", #"{"name":"9","password":"\#(Self.planted("new-password"))"}"#),
                ("/v1/apikeys", #"{"name":"x","hash":"\#(Self.planted("body"))","scopes":"admin"}"#),
                ("/v1/apps", #"{"name":"x","id":"x","org":"x","hash":"\#(Self.planted("body"))"}"#),
            ] {
                Self.expectNone(in: try await daemon.order("PUT", target, body).body, target)
            }
            _ = try await daemon.order("GET", "/v1/users", key: Self.key)
            // The daemon tries to send the webhooks for a while, and then logs each webhook that was not delivered.
            while !daemon.log.lines.contains(where: {
                $0.contains("a webhook could not be delivered, so the daemon dropped it")
            }) {
                await Task.yield()
            }
        }

        /// Phones register with tokens, calls wake these phones, and the providers repeat the tokens.
        private func calls(_ daemon: RunningDaemon, _ outside: Outside) async throws {
            let local = await outside.local
            let login =
                "Authorization: Digest username=\"101\", realm=\"example.net\", nonce=\"\(Self.planted("nonce"))\", "
                + "uri=\"sip:example.net\", response=\"\(Self.planted("digest"))\""
            for (user, parameters) in [
                ("101", "pn-provider=fcm;pn-param=p;pn-prid=\(Self.planted("fcm-token"))"),
                ("102", "pn-provider=http;pn-param=gateway;pn-prid=\(Self.planted("gateway-token"))"),
            ] {
                let contact = "<sip:\(user)@\(local);\(parameters)>"
                await outside.send(
                    SIPText.register(
                        user: user, from: local, callID: "r\(user)", cseq: 1, branch: "r\(user)", contact: contact,
                        extra: [login]),
                    to: daemon.sip)
                _ = try await outside.message("SIP/2.0 200", of: "r\(user)")
            }
            // Phones send malformed requests of two kinds.
            for (number, row) in ["CSeq: x REGISTER", "CSeq: 1 REGISTER\r\nContent-Length: -9"].enumerated() {
                let contact = "<sip:103@\(local);pn-provider=fcm;pn-param=p;pn-prid=\(Self.planted("broken-token"))>"
                let text = String(
                    decoding: SIPText.register(
                        user: "103", from: local, callID: "b\(number)", cseq: 1, branch: "b\(number)",
                        contact: contact, extra: [login]), as: UTF8.self)
                await outside.send(Array(text.replacing("CSeq: 1 REGISTER", with: row).utf8), to: daemon.sip)
            }
            for user in ["100", "101", "102"] {
                await outside.send(
                    SIPText.invite(to: user, from: "103", at: local, callID: "call\(user)", branch: "i\(user)"),
                    to: daemon.sip)
                _ = try await outside.message("SIP/2.0 480", of: "call\(user)")
            }
        }

        /// Reads all data that operators and application servers can request.
        private func reading(_ daemon: RunningDaemon) async throws {
            for user in ["100", "101", "102"] {
                for target in ["/v1/users/\(user)@example.net/devices", "/v1/users/\(user)@example.net/bucket"] {
                    Self.expectNone(in: try await daemon.order("GET", target).body, target)
                }
                // The test waits for the timeline records, which the daemon writes a moment after the call.
                var explanation = ""
                while !explanation.contains("No token") && !explanation.contains("status 400") {
                    explanation = try await daemon.order("GET", "/v1/explain/\(user)@example.net").body
                }
                Self.expectNone(in: explanation, "explain")
            }
            for target in ["/v1/users", "/v1/providers", "/v1/held", "/v1/apikeys", "/v1/apps", "/metrics"] {
                Self.expectNone(in: try await daemon.order("GET", target).body, target)
            }
            for target in ["/v1/push-statistics?by=push", "/api/v1/pushes/", "/openapi.json"] {
                let answer = try await daemon.answer(
                    "GET \(target) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(RunningDaemon.adminKey)\r\n"
                        + "Connection: close\r\n\r\n")
                #expect(RunningDaemon.statuses(answer) == [200])
                Self.expectNone(in: answer, target)
            }
        }
    }
}
