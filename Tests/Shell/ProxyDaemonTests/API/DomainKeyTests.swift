import Addressing
import Crypto
import Foundation
import JSON
import LoopTesting
import Persistence
import ProxyDaemon
import ProxyPolicy
import PushDelivery
import Reactor
import Settings
import Storage
import StoreTesting
import TestSupport
import Testing
import Timekeeping

@testable import Control
@testable import HTTPServices

/// A daemon of two domains. In example.net, user 100 has a phone that sleeps, a call that waits, a message, pushes, a dead
/// token, a key and apps. The attacker has a key with the scope admin for example.org.
private struct Scene {
    let daemon: RunningDaemon
    let outside: Outside
    /// The code of the phone of user 100, and the code of a push to this phone.
    var device = ""
    var push = ""

    static let attacker = "spd_" + String(repeating: "O", count: 43)
    static let token = "token-of-the-phone-of-100"
    static let deadToken = "dead-token-of-example-net"
    static let appID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    static let storedAppID = "0a1b2c3d-4e5f-6071-8293-00000000000a"
    static let hash = String(repeating: "0", count: 64)

    /// Texts about example.net, which no answer to the attacker may contain unless the attacker's request contained the
    /// text.
    var secrets: [String] {
        [
            "example.net", "100@", "call1", "103@", Self.token, Self.deadToken, device, push, "net-admin", "net-shop",
            "net-stored", Self.appID, Self.storedAppID,
        ]
    }

    static func with(_ body: (Scene) async throws -> Void) async throws {
        let folder = try StoreFolder()
        try await withLoop { loop in
            let outside = Outside(loop)
            let url = try await outside.open()
            try prepare(folder)
            let daemon = try await RunningDaemon.start(folder) { settings in
                settings.trusted = [TrustedPeer("127.0.0.1")].compactMap { $0 }
                settings.admin.listen = [Endpoint(.loopbackV4, 0)]
                settings.messages.store = true
                settings.api.notifications.enabled = true
                settings.limits.wrongLoginsPerSource = 0
                settings.push.fcm.enabled = true
                settings.push.fcm.bodyFormat = .legacy
                settings.push.fcm.payload = .tenDarts
                settings.push.fcm.serverKey = Secret("server-key")
                settings.push.fcm.endpoint = url
                settings.call.ringTimeout = .seconds(600)
                settings.push.acrobits.endpoint = url
                var app = MobileAppSettings()
                app.id = appID
                app.organisation = "org"
                app.googleParam = "p"
                app.user = UserTemplate("{{user}}@example.net") ?? .plain
                app.tokenHashes = [HashAlgorithm.sha256.digest(of: Array("tok".utf8))]
                settings.api.mobileApps["net-shop"] = app
            }
            let result: Result<Void, any Error>
            do {
                var scene = Scene(daemon: daemon, outside: outside)
                try await scene.fill()
                result = .success(try await body(scene))
            } catch {
                result = .failure(error)
            }
            try await daemon.stop()
            withExtendedLifetime(folder) {}
            await outside.close()
            try result.get()
        }
    }

    private static func prepare(_ folder: StoreFolder) throws {
        let date = UnixTime(seconds: 0)
        let secret = try #require(APIKeySecret(attacker))
        let keys = [
            APIKey(
                name: "org-admin", hash: secret.hash, scopes: [.admin], createdAt: date,
                domains: try #require(DomainScope(domains: ["example.org"]))),
            APIKey(
                name: "net-admin", hash: [UInt8](repeating: 1, count: 32), scopes: [.admin], createdAt: date,
                domains: try #require(DomainScope(domains: ["example.net"]))),
            APIKey(
                name: "both-net-admin", hash: [UInt8](repeating: 2, count: 32), scopes: [.admin], createdAt: date,
                domains: try #require(DomainScope(domains: ["example.net", "example.org"]))),
        ].compactMap(\.self)
        try folder.keep(keys.map { .addKey($0.stored) })
        try folder.execute(
            """
            INSERT INTO dead_token (recorded_at, since, provider, param, token, source, domain)
            VALUES (1, 1, 'fcm', 'p', '\(deadToken)', 'provider', 'example.net'),
                (2, 2, 'fcm', 'p', 'dead-token-of-nobody', 'provider', ''),
                (3, 3, 'fcm', 'p', 'dead-token-of-org', 'provider', 'example.org')
            """)
        try folder.execute(
            """
            INSERT INTO wake_day VALUES (\(SystemClock.moment.date.seconds / 86_400), 'example.net', 'fcm', 'iOS', 1, 1, 1\(
                String(repeating: ", 1", count: WakeTimes.bounds.count + 1)))
            """)
    }

    private mutating func fill() async throws {
        let local = await outside.local
        let contact = "<sip:100@\(local);pn-provider=fcm;pn-param=p;pn-prid=\(Self.token)>"
        await outside.send(
            SIPText.register(user: "100", from: local, callID: "r1", cseq: 1, branch: "r1", contact: contact),
            to: daemon.sip)
        _ = try await outside.message("SIP/2.0 200", of: "r1")
        await outside.send(
            SIPText.invite(to: "100", from: "103", at: local, callID: "call1", branch: "i1"), to: daemon.sip)
        _ = try await outside.message("SIP/2.0 100", of: "call1")
        let text = String(
            decoding: SIPText.invite(to: "100", from: "103", at: local, callID: "text1", branch: "m1"), as: UTF8.self)
        let message = text.replacing("INVITE sip:", with: "MESSAGE sip:").replacing("1 INVITE", with: "1 MESSAGE")
            .replacing("application/sdp", with: "text/plain")
        await outside.send(Array(message.utf8), to: daemon.sip)
        _ = try await outside.message("SIP/2.0 202", of: "text1")
        let stored =
            #"{"name":"net-stored","id":"\#(Self.storedAppID)","org":"o","hash":"\#(Self.hash)","user":"{{user}}@Example.NET"}"#
        #expect(try await daemon.order("PUT", "/v1/apps", stored).status == 200)
        let found = try await ask(
            "POST", "/api/v1/devices", #"{"token":"\#(Self.token)","platform":"android"}"#,
            key: RunningDaemon.adminKey)
        device = try #require(try JSONValue(Array(found.body.utf8))["code"]?.string)
        let sent = try await ask(
            "POST", "/api/v1/notifications", #"{"title":"t","users":["100@example.net"]}"#, key: RunningDaemon.adminKey)
        #expect(sent.status == 202, "\(sent)")
        push = try #require(try JSONValue(Array(sent.body.utf8))["code"]?.string)
    }

    struct Answer: Equatable {
        let status: Int
        let body: String
    }

    /// Sends a request to the API, or to the admin API.
    func ask(
        _ method: String, _ target: String, _ body: String = "", key: String, ofAdmin: Bool = false,
        type: String = "application/json"
    ) async throws -> Answer {
        let place = ofAdmin ? try #require(daemon.admin) : daemon.api
        let answer = try await daemon.answer(
            "\(method) \(target) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(key)\r\nContent-Type: \(type)\r\n"
                + "Content-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)", from: place)
        let head = try #require(answer.firstRange(of: "\r\n\r\n"))
        return Answer(status: Int(answer.dropFirst(9).prefix(3)) ?? 0, body: String(answer[head.upperBound...]))
    }

    func order(_ method: String, _ target: String, _ body: String = "", key: String = attacker) async throws -> Answer {
        try await ask(method, target, body, key: key, ofAdmin: true)
    }
}

/// An attack on one HTTP route: a request for an object of example.net, and the same request for an object that does
/// not exist. The attacker must get equal answers to the two requests.
private struct Attack {
    let target: String
    let other: String
    var body = ""
    var otherBody = ""
    var type = "application/json"
    /// The status of the answer for the owner of the object; `nil` if the request would end the scene.
    var rightful: Int?
}

extension RunningDaemonSuites {
    /// Tests that a key that names domains reaches nothing of other domains (T41.6 to T41.10).
    @Suite("Keys that name domains", .timeLimit(.minutes(10)))
    struct DomainKeyTests {
        private func attack(_ method: String, _ pattern: String, _ scene: Scene) -> Attack? {
            let noPush = "11111111-2222-4333-8444-555555555555"
            let noDevice = String(repeating: "A", count: 32)
            func path(_ name: String, _ other: String, _ rightful: Int?) -> Attack {
                func fill(_ text: String) -> String {
                    var path = pattern
                    if let place = path.firstRange(of: "{}") { path.replaceSubrange(place, with: text) }
                    return path.replacing("{}", with: "fcm:\(Scene.token)")
                }
                return Attack(target: fill(name), other: fill(other), rightful: rightful)
            }
            func body(_ body: String, _ other: String, _ rightful: Int?) -> Attack {
                Attack(target: pattern, other: pattern, body: body, otherBody: other, rightful: rightful)
            }
            func list(_ query: String = "", _ other: String = "") -> Attack {
                Attack(target: pattern + query, other: pattern + other, rightful: 200)
            }
            switch (method, pattern) {
            case ("GET", "/v1/users"), ("GET", "/v1/apikeys"), ("GET", "/v1/apps"), ("GET", "/v1/upstream-domains"),
                ("GET", "/v1/held"):
                return list()
            case ("GET", "/v1/upstream"): return list("?domain=example.net", "?domain=example.com")
            case ("GET", "/v1/messages"): return list("?user=100@example.net", "?user=999@example.net")
            case ("PUT", "/v1/users"):
                return body(
                    #"{"name":"100@example.net","password":"stolen"}"#,
                    #"{"name":"100@example.com","password":"stolen"}"#, nil)
            case ("GET", "/v1/users/{}"): return path("100@example.net", "999@example.net", 200)
            case ("DELETE", "/v1/users/{}"): return path("100@example.net", "999@example.net", nil)
            case ("POST", "/v1/users/{}/provisioning"): return path("100@example.net", "999@example.net", 200)
            case ("DELETE", "/v1/users/{}/provisioning"): return path("100@example.net", "999@example.net", nil)
            case ("GET", "/v1/provisioning"): return list("?user=100@example.net", "?user=999@example.net")
            case ("GET", "/v1/users/{}/devices"): return path("100@example.net", "999@example.net", 200)
            case ("DELETE", "/v1/users/{}/devices/{}"): return path("100@example.net", "999@example.net", nil)
            case ("GET", "/v1/users/{}/rules"): return path("100@example.net", "999@example.net", 200)
            case ("PUT", "/v1/users/{}/rules"):
                var attack = path("100@example.net", "999@example.net", nil)
                attack.body = #"{"doNotDisturb":{"always":true}}"#
                attack.otherBody = attack.body
                return attack
            case ("DELETE", "/v1/users/{}/rules"): return path("100@example.net", "999@example.net", nil)
            case ("GET", "/v1/users/{}/bucket"): return path("100@example.net", "999@example.net", 200)
            case ("DELETE", "/v1/users/{}/bucket"): return path("100@example.net", "999@example.net", nil)
            case ("DELETE", "/v1/held/{}"): return path("call1", "call9", nil)
            case ("DELETE", "/v1/messages/{}"): return path("1", "77", nil)
            case ("GET", "/v1/upstream/{}"), ("POST", "/v1/upstream/{}/retry"):
                return path("100@example.net", "999@example.net", 404)
            case ("POST", "/v1/push-tests"):
                return body(#"{"user":"100@example.net"}"#, #"{"user":"999@example.net"}"#, 200)
            case ("GET", "/v1/explain/{}"): return path("100@example.net", "999@example.net", 200)
            case ("GET", "/v1/explain"):
                return Attack(target: pattern + "?name=call1", other: pattern + "?name=call9", rightful: 200)
            case ("PUT", "/v1/apikeys"):
                let key = #"{"name":"mine","hash":"\#(Scene.hash)","scopes":"admin","domains":["D"]}"#
                return body(
                    key.replacing("D", with: "example.net"), key.replacing("D", with: "example.com"), nil)
            case ("DELETE", "/v1/apikeys/{}"): return path("net-admin", "net-nobody", nil)
            case ("PUT", "/v1/apps"):
                let app =
                    #"{"name":"mine","id":"0a1b2c3d-4e5f-6071-8293-00000000000b","org":"o","hash":"\#(Scene.hash)","user":"{{user}}@D"}"#
                return body(
                    app.replacing("@D", with: "@example.net"), app.replacing("@D", with: "@example.com"), nil)
            case ("DELETE", "/v1/apps/{}"): return path("net-stored", "net-nobody", nil)
            case ("GET", "/v1/dead-tokens"): return list()
            case ("GET", "/v1/push-statistics"), ("GET", "/v1/reports/wakes"), ("GET", "/v1/reports/pushes"),
                ("GET", "/api/v1/pushes"),
                ("GET", "/api/v1/pushes/"):
                return list("?domain=example.net", "?domain=example.com")
            case ("GET", "/v1/pushes/{}"), ("GET", "/api/v1/pushes/{}"), ("GET", "/api/v1/pushes/{}/"),
                ("GET", "/api/v1/notifications/{}/metrics"), ("GET", "/api/v1/notifications/{}/metrics/"):
                return path(scene.push, noPush, 200)
            case ("POST", "/api/v1/devices"), ("POST", "/api/v1/devices/"):
                return body(
                    #"{"token":"\#(Scene.token)","platform":"android"}"#,
                    #"{"token":"token-of-the-phone-of-999","platform":"android"}"#, 201)
            case ("POST", "/api/v1/devices/{}/access"), ("POST", "/api/v1/devices/{}/access/"):
                return path(scene.device, noDevice, 200)
            case ("POST", "/pnm2/send"):
                let send = #"{"verb":"NotifyGenericTextMessage","AppId":"a","DeviceToken":"T","Message":"m"}"#
                return body(
                    send.replacing(#":"T""#, with: #":"QVBBOTFiVG9rZW5PZjEwMA""#),
                    send.replacing(#":"T""#, with: #":"QVBBOTFiVG9rZW5PZjk5OQ""#), 200)
            case ("POST", "/pnm2"):
                var form = body(
                    "verb=NotifyGenericTextMessage&AppId=a&DeviceToken=QVBBOTFiVG9rZW5PZjEwMA&Message=m",
                    "verb=NotifyGenericTextMessage&AppId=a&DeviceToken=QVBBOTFiVG9rZW5PZjk5OQ&Message=m", 200)
                form.type = "application/x-www-form-urlencoded"
                return form
            case (_, let pattern) where pattern.hasPrefix("/api/v1/notifications"):
                return body(
                    #"{"title":"t","users":["100@example.net"],"devices":["\#(scene.device)"]}"#,
                    #"{"title":"t","users":["999@example.net"],"devices":["\#(noDevice)"]}"#, 202)
            case (_, let pattern) where pattern.hasPrefix("/api/v1/pushes/all_read"):
                return body(#"{"device":"\#(scene.device)"}"#, #"{"device":"\#(noDevice)"}"#, nil)
            case (_, let pattern) where pattern.hasPrefix("/api/v1/pushes/{}"):
                var mark = path(scene.push, scene.push, nil)
                mark.body = #"{"device":"\#(scene.device)"}"#
                mark.otherBody = #"{"device":"\#(noDevice)"}"#
                return mark
            case (_, let pattern)
            where ["/v1/push-tokens", "/v1/account-removals", "/token", "/pushToken"].contains(where: pattern.hasPrefix):
                var target = pattern
                let user = "100@D"
                for value in [user, "S1"] {
                    if let place = target.firstRange(of: "{}") { target.replaceSubrange(place, with: value) }
                }
                target = target.replacing("{*}", with: "QVBBOTFi")
                let form = "username=\(user)&selector=S1&pushToken=QVBBOTFi&appid=a"
                let isGET = method == "GET"
                func of(_ domain: String, _ text: String) -> String { text.replacing("@D", with: "@\(domain)") }
                return Attack(
                    target: of("example.net", isGET ? "\(target)?\(form)" : target),
                    other: of("example.com", isGET ? "\(target)?\(form)" : target),
                    body: isGET ? "" : of("example.net", form), otherBody: isGET ? "" : of("example.com", form),
                    type: "application/x-www-form-urlencoded", rightful: nil)
            default: return nil
            }
        }

        @Test func `no route leads to another domain, and routes for the whole daemon are refused`() async throws {
            try await Scene.with { scene in
                try await scene.daemon.expect(
                    200, post: "/v1/push-tokens",
                    "username=100@example.net&selector=S1&pushToken=QVBBOTFiVG9rZW5PZjEwMA&appid=a",
                    type: "application/x-www-form-urlencoded", key: RunningDaemon.adminKey)
                let before = try await state(scene)
                var counts: [DomainRule: Int] = [:]
                for (route, isOfAdmin) in scene.daemon.declared {
                    counts[route.domains, default: 0] += 1
                    switch route.domains {
                    case .open: #expect(route.scope == nil, "\(route.pattern)")
                    case .wholeDaemon: try await expectRefusal(route.method, route.pattern, isOfAdmin, scene)
                    case .byDomain:
                        guard let attack = attack(route.method, route.pattern, scene) else {
                            Issue.record("no attack on \(route.method) \(route.pattern)")
                            continue
                        }
                        try await expectNothing(route.method, route.pattern, attack, isOfAdmin, scene)
                    }
                }
                #expect(counts[.wholeDaemon, default: 0] >= 8 && counts[.byDomain, default: 0] >= 70, "\(counts)")
                #expect(try await state(scene) == before)
            }
        }

        /// All data of example.net that an attack could change.
        private func state(_ scene: Scene) async throws -> [String] {
            var state: [String] = []
            for target in ["/v1/users", "/v1/users/100@example.net/bucket", "/v1/messages", "/v1/apikeys", "/v1/apps"] {
                let answer = try await scene.order("GET", target, key: RunningDaemon.adminKey)
                #expect(answer.status == 200)
                state.append(answer.body)
            }
            // The figures of pushes in the two lists change, because the owner sends pushes.
            for (target, name) in [("/v1/users/100@example.net/devices", "id"), ("/v1/providers", "name")] {
                let answer = try await scene.order("GET", target, key: RunningDaemon.adminKey)
                let items = try JSONValue(Array(answer.body.utf8)).array ?? []
                state += items.map {
                    "\($0[name]?.string ?? "") \($0["isPaused"]?.bool == true) \($0["isEnabled"]?.bool == true)"
                }
            }
            let held = try await scene.order("GET", "/v1/held", key: RunningDaemon.adminKey)
            state.append("\(held.body.contains("call1"))")
            let push = try await scene.ask("GET", "/v1/pushes/\(scene.push)", key: RunningDaemon.adminKey)
            let marks = try JSONValue(Array(push.body.utf8))["devices"]?.array?.map { device in
                "\(device["received"]?.bool == true) \(device["read"]?.bool == true)"
            }
            state.append("\(marks ?? [])")
            return state
        }

        private func expectRefusal(
            _ method: String, _ pattern: String, _ isOfAdmin: Bool, _ scene: Scene
        ) async throws {
            let target = pattern.replacing("{}", with: "fcm")
            let answer = try await scene.ask(method, target, key: Scene.attacker, ofAdmin: isOfAdmin)
            #expect(answer.status == 403, "\(method) \(pattern): \(answer)")
            #expect(answer.body.contains("this key is only for some domains"), "\(method) \(pattern): \(answer)")
        }

        private func expectNothing(
            _ method: String, _ pattern: String, _ attack: Attack, _ isOfAdmin: Bool, _ scene: Scene
        ) async throws {
            func answer(_ target: String, _ body: String, _ key: String) async throws -> Scene.Answer {
                try await scene.ask(method, target, body, key: key, ofAdmin: isOfAdmin, type: attack.type)
            }
            let answered = try await answer(attack.target, attack.body, Scene.attacker)
            for secret in scene.secrets where !(attack.target + attack.body).contains(secret) {
                #expect(!answered.body.contains(secret), "\(method) \(attack.target) tells \(secret): \(answered)")
            }
            let unknown = try await answer(attack.other, attack.otherBody, Scene.attacker)
            #expect(
                Scene.Answer(status: answered.status, body: common(answered.body, scene))
                    == Scene.Answer(status: unknown.status, body: common(unknown.body, scene)),
                "\(method) \(pattern): \(answered) is not \(unknown)")
            // The attacker's request is valid, because a sender who may reach the object gets another answer.
            if let rightful = attack.rightful {
                let owner = try await answer(attack.target, attack.body, RunningDaemon.adminKey)
                #expect(owner.status == rightful, "\(method) \(pattern): \(owner)")
                #expect(
                    rightful == 404 || pattern.hasPrefix("/v1/upstream") || owner != answered, "\(method) \(pattern)")
            }
        }

        /// The answer without the names in the request, and without codes and times that differ from answer to answer.
        private func common(_ body: String, _ scene: Scene) -> String {
            var text = body
            for name in [
                "999@example.net", "100@example.net", "100@example.com", "example.net", "example.com", "call1", "call9",
                "net-nobody", "net-admin", "net-stored", scene.device, String(repeating: "A", count: 32),
            ] {
                text = text.replacing(name, with: "X")
            }
            return text.replacing(/"code":"[^"]*"/, with: "").replacing(/"date":[0-9.]+/, with: "")
        }

        // MARK: Keys

        @Test func `a key can give nobody more domains than it has`() async throws {
            try await Scene.with { scene in
                func key(_ name: String, _ domains: String) -> String {
                    #"{"name":"\#(name)","hash":"\#(Scene.hash)","scopes":"admin"\#(domains)}"#
                }
                for domains in [
                    "", #","domains":null"#, #","domains":["example.net"]"#,
                    #","domains":["example.org","example.net"]"#,
                    #","domains":["EXAMPLE.NET"]"#, #","domains":["example.com"]"#,
                ] {
                    let answer = try await scene.order("PUT", "/v1/apikeys", key("more", domains))
                    #expect(answer.status == 403, "\(domains): \(answer)")
                    #expect(!answer.body.contains("example.net"), "\(answer)")
                }
                for domains in [
                    #","domains":[]"#, #","domains":[""]"#, #","domains":["example.org,example.net"]"#,
                    #","domains":"""#,
                    #","domains":["example.org "]"#, #","domains":[7]"#, #","domains":{}"#,
                ] {
                    for sender in [Scene.attacker, RunningDaemon.adminKey] {
                        let answer = try await scene.order("PUT", "/v1/apikeys", key("more", domains), key: sender)
                        #expect(answer.status == 400, "\(domains): \(answer)")
                    }
                }
                let unknown = try await scene.order(
                    "PUT", "/v1/apikeys", key("more", #","domains":["example.com"]"#), key: RunningDaemon.adminKey)
                #expect(
                    unknown.status == 400 && unknown.body.contains("example.com is not one of this daemon's domains"))
                let metrics = try await scene.order(
                    "PUT", "/v1/apikeys",
                    #"{"name":"m","hash":"\#(Scene.hash)","scopes":"metrics","domains":["example.net"]}"#,
                    key: RunningDaemon.adminKey)
                #expect(metrics.status == 400 && metrics.body.contains("the metrics are of the whole daemon"))

                // The attack neither replaces nor removes a key, and shows no key of another domain.
                for name in ["boss", "reader", "net-admin", "both-net-admin"] {
                    let own = #","domains":["example.org"]"#
                    #expect(try await scene.order("PUT", "/v1/apikeys", key(name, own)).status == 409, "\(name)")
                    #expect(try await scene.order("DELETE", "/v1/apikeys/\(name)").status == 404, "\(name)")
                    #expect(try await scene.daemon.order("GET", "/v1/users").status == 200)
                }
                let own = try await scene.order("PUT", "/v1/apikeys", key("mine", #","domains":["Example.ORG"]"#))
                #expect(own.status == 200, "\(own)")
                let listed = try await scene.order("GET", "/v1/apikeys")
                let names = try JSONValue(Array(listed.body.utf8)).array?.compactMap { $0["name"]?.string }
                #expect(names == ["mine", "org-admin"])
                #expect(listed.body.contains(#""domains":["example.org"]"#))
                #expect(try await scene.order("DELETE", "/v1/apikeys/mine").status == 200)
            }
        }

        @Test func `a domain's administrators cannot use up the keys of all`() async throws {
            try await Scene.with { scene in
                func put(_ number: Int, _ sender: String = Scene.attacker) async throws -> Int {
                    let key =
                        #"{"name":"k\#(number)","hash":"\#(Scene.hash)","scopes":"pushes","domains":["example.org"]}"#
                    return try await scene.order("PUT", "/v1/apikeys", key, key: sender).status
                }
                // The store has exactly two keys for example.org.
                for number in 3...APIKeyRing.limitOfDomain {
                    let status = try await put(number)
                    try #require(status == 200, "key \(number)")
                }
                #expect(try await put(1000) == 409)
                #expect(try await put(1000, RunningDaemon.adminKey) == 200)
            }
        }

        // MARK: The own domain

        @Test func `a key reaches its own domain`() async throws {
            try await Scene.with { scene in
                let user = #"{"name":"7@example.org","password":"p"}"#
                #expect(try await scene.order("PUT", "/v1/users", user).status == 200)
                #expect(try await scene.order("GET", "/v1/users/7@example.org").status == 200)
                #expect(try await scene.order("GET", "/v1/users").body == #"{"users":[{"name":"7@example.org"}]}"#)
                // A user without a domain is a user of the key's only domain.
                try await scene.daemon.expect(
                    200, post: "/v1/push-tokens", "username=7&selector=S7&pushToken=QVBBOTFi&appid=a",
                    type: "application/x-www-form-urlencoded", key: Scene.attacker)
                await scene.daemon.expect([], of: "7", domain: "example.net")
                #expect(await scene.daemon.devices("7", domain: "example.org").count == 1)
                let devices = try await scene.order("GET", "/v1/users/7@example.org/devices")
                #expect(devices.status == 200 && devices.body.contains("acrobits"))
                let sent = try await scene.ask(
                    "POST", "/api/v1/notifications", #"{"title":"t","users":["7","100@example.net"]}"#,
                    key: Scene.attacker)
                #expect(sent.status == 202 && sent.body.contains(#""sent_to":1"#), "\(sent)")
                #expect(sent.body.contains(#""unknown":["100@example.net"]"#), "\(sent)")
                let code = try #require(try JSONValue(Array(sent.body.utf8))["code"]?.string)
                let metrics = try await scene.ask("GET", "/api/v1/notifications/\(code)/metrics", key: Scene.attacker)
                #expect(metrics.status == 200 && metrics.body.contains(#""sent_to":1"#), "\(metrics)")
                let explained = try await scene.order("GET", "/v1/explain/7")
                #expect(explained.body.contains(#""name":"7@example.org""#), "\(explained)")
                let dead = try await scene.ask("GET", "/v1/dead-tokens", key: Scene.attacker)
                #expect(dead.body.contains("dead-token-of-org") && !dead.body.contains("dead-token-of-nobody"))
                let app =
                    #"{"name":"org-app","id":"0a1b2c3d-4e5f-6071-8293-00000000000c","org":"o","hash":"\#(Scene.hash)","user":"{{user}}@example.org"}"#
                #expect(try await scene.order("PUT", "/v1/apps", app).status == 200)
                #expect(try await scene.order("GET", "/v1/apps").body.contains("org-app"))
                #expect(try await scene.order("DELETE", "/v1/apps/org-app").status == 200)
                // Without a domain in the template, requests of the app could name users of any domain.
                let plain = app.replacing(#","user":"{{user}}@example.org""#, with: "")
                #expect(try await scene.order("PUT", "/v1/apps", plain).status == 403)
            }
        }

        @Test func `figures are by domain`() async throws {
            try await Scene.with { scene in
                try await scene.daemon.expect(
                    200, post: "/v1/push-tokens", "username=7&selector=S7&pushToken=QVBBOTFi&appid=a",
                    type: "application/x-www-form-urlencoded", key: Scene.attacker)
                let sent = try await scene.ask(
                    "POST", "/api/v1/notifications", #"{"title":"t","users":["7@example.org","100@example.net"]}"#,
                    key: RunningDaemon.adminKey)
                let code = try #require(try JSONValue(Array(sent.body.utf8))["code"]?.string)
                // The statistics contain the push when the provider has answered.
                func devices(_ query: String, _ key: String) async throws -> Int64? {
                    let answer = try await scene.ask("GET", "/v1/push-statistics?by=push\(query)", key: key)
                    let rows = try JSONValue(Array(answer.body.utf8))["statistics"]?.array ?? []
                    return rows.first { $0["push"]?.string == code }?["devices"]?.integer
                }
                while try await devices("", RunningDaemon.adminKey) != 2 { try Task.checkCancellation() }
                #expect(try await devices("&domain=Example.ORG", RunningDaemon.adminKey) == 1)
                #expect(try await devices("", Scene.attacker) == 1)
                #expect(try await devices("&domain=example.org", Scene.attacker) == 1)
                #expect(try await devices("&domain=example.net", Scene.attacker) == nil)
                let report = try await scene.ask("GET", "/v1/pushes/\(code)", key: Scene.attacker)
                let shown = try JSONValue(Array(report.body.utf8))["devices"]?.array ?? []
                #expect(shown.count == 1 && !report.body.contains(scene.device), "\(report)")
                let metrics = try await scene.ask("GET", "/api/v1/notifications/\(code)/metrics", key: Scene.attacker)
                #expect(metrics.body.contains(#""sent_to":1"#), "\(metrics)")
            }
        }
    }
}
