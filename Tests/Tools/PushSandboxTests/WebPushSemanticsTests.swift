import Bytes
import Crypto
import JSON
import PushSandbox
import Testing

/// A sender of web pushes, and the push service to which it sends.
private struct Sender {
    static let usualHeaders = [
        "host": "push.example", "ttl": "30", "urgency": "high", "topic": "aZ09-_", "content-encoding": "aes128gcm",
    ]
    let provider: Provider
    let key: ProviderKey
    let point: String

    init() throws {
        provider = try Provider()
        provider.semantics.webPushOrigin = "https://127.0.0.1:8443"
        key = try ProviderKey(.bytes(SelfSignedCertificate(hosts: ["v"]).key), for: .es256)
        point = String(decoding: Base64.url.encode(try key.publicPoint()), as: UTF8.self)
    }

    func subscribe(_ id: String, _ body: String = "") -> SandboxAnswer {
        provider.semantics.answer(provider.request("PUT", "/sandbox/subscriptions/\(id)", ["host": "c"], body))
    }

    func vapid(
        audience: String = "https://push.example", lifetime: Int64 = 3600, contact: String? = "mailto:a@example.com",
        algorithm: String = "ES256", signer: ProviderKey? = nil
    ) throws -> String {
        let end = Provider.milliseconds / 1000 + lifetime
        let sub = contact.map { ",\"sub\":\"\($0)\"" } ?? ""
        let token = try (signer ?? key).token(
            header: Array("{\"typ\":\"JWT\",\"alg\":\"\(algorithm)\"}".utf8),
            claims: Array("{\"aud\":\"\(audience)\",\"exp\":\(end)\(sub)}".utf8))
        return "vapid t=\(String(decoding: token, as: UTF8.self)), k=\(point)"
    }

    /// Sends a push. If the changed value of a header field is empty, the request lacks the header field.
    func push(
        _ id: String, _ changes: [String: String] = [:], method: String = "POST", repeated: Set<String> = [],
        at service: String = "webpush", body: [UInt8] = []
    ) throws -> SandboxAnswer {
        var headers = Self.usualHeaders
        headers["authorization"] = try vapid()
        if body.isEmpty { headers["content-encoding"] = nil }
        var request = SandboxRequest(
            method: method, target: "/\(service)/\(id)",
            headers: headers.merging(changes) { $1 }.filter { !$0.value.isEmpty },
            body: body, version: "h2", connection: 1)
        request.isSecure = true
        request.repeatedHeaders = repeated
        return provider.semantics.answer(request)
    }

    func sealed(_ text: String, for subscription: SandboxAnswer) throws -> [UInt8] {
        let key = try #require(subscription.bytes("p256dh"))
        let secret = try #require(subscription.bytes("auth"))
        return try WebPushEncryption.encrypt(Array(text.utf8), for: key, authSecret: secret)
    }
}

extension SandboxAnswer {
    fileprivate func bytes(_ member: String) -> [UInt8]? {
        json[member]?.string.flatMap { Base64.url.decode(Array($0.utf8)) }
    }
}

@Suite("Answers of a web push service, in the sandbox")
struct WebPushSemanticsTests {
    @Test func `a push is decrypted by the subscription it was encrypted for`() throws {
        let sender = try Sender()
        let subscription = sender.subscribe("bob.1")
        #expect(subscription.status == 200)
        #expect(subscription.json["endpoint"]?.string == "https://127.0.0.1:8443/webpush/bob.1")
        let answer = try sender.push("bob.1", body: sender.sealed(#"{"type":"invite"}"#, for: subscription))
        #expect(answer.status == 201 && answer.headers["ttl"] == "30")
        #expect(answer.headers["location"]?.hasPrefix("https://push.example/message/") == true)
        let record = try #require(sender.provider.semantics.records.first)
        #expect(record.service == "webpush" && record.token == "bob.1" && record.type == "invite")
        #expect(record.body == #"{"type":"invite"}"# && record.isAccepted)
        #expect(record.headers["ttl"] == "30" && record.headers["urgency"] == "high" && record.headers["host"] == nil)
    }

    @Test func `a subscription keeps its keys until it is deleted`() throws {
        let sender = try Sender()
        let first = sender.subscribe("a")
        #expect(sender.subscribe("a").body == first.body)
        #expect(sender.subscribe("b").bytes("p256dh") != first.bytes("p256dh"))
        let request = sender.provider.request("DELETE", "/sandbox/subscriptions/a")
        #expect(sender.provider.semantics.answer(request).status == 200)
        #expect(sender.subscribe("a").bytes("auth") != first.bytes("auth"))
    }

    @Test func `a push server of UnifiedPush knows its own endpoints only, and wants a payload and VAPID`() throws {
        let sender = try Sender()
        let subscription = sender.subscribe("up1", #"{"service":"unifiedpush"}"#)
        #expect(subscription.json["endpoint"]?.string == "https://127.0.0.1:8443/up/up1")
        let body = try sender.sealed("{}", for: subscription)
        #expect(try sender.push("up1", at: "up", body: body).status == 201)
        #expect(sender.provider.semantics.records.first?.service == "unifiedpush")
        #expect(try sender.push("other", at: "up", body: body).status == 404)
        #expect(try sender.push("up1", at: "up").status == 400)
        #expect(try sender.push("up1", ["authorization": ""], at: "up", body: body).status == 401)
        #expect(try sender.push("up1", at: "up", body: [UInt8](repeating: 1, count: 4097)).status == 413)
        #expect(try sender.push("up1", method: "GET", at: "up").json["unifiedpush"]?["version"]?.integer == 1)
        _ = sender.subscribe("web")
        #expect(try sender.push("web", at: "up", body: body).status == 404)
        #expect(sender.subscribe("x", #"{"service":"other"}"#).status == 400)
    }

    @Test func `a push server of UnifiedPush limits one endpoint`() throws {
        let sender = try Sender()
        let plan = sender.provider.request("PUT", "/sandbox/tokens/up1", [:], #"{"status":429}"#)
        #expect(sender.provider.semantics.answer(plan).status == 200)
        for (id, status) in [("up1", 429), ("up2", 201)] {
            let body = try sender.sealed("{}", for: sender.subscribe(id, #"{"service":"unifiedpush"}"#))
            let answer = try sender.push(id, at: "up", body: body)
            #expect(answer.status == status && (answer.headers["retry-after"] == "10") == (status == 429))
        }
    }

    @Test func `without a payload any subscription will do`() throws {
        let sender = try Sender()
        #expect(try sender.push("nobody").status == 201)
        let answer = try sender.push("nobody", body: [1, 2, 3])
        #expect(answer.status == 400 && answer.reason == "NoSubscription")
        #expect(try sender.push("nobody", ["content-encoding": "aes128gcm"]).reason == "BadContentEncoding")
    }

    @Test func `a body that cannot be decrypted is refused`() throws {
        let sender = try Sender()
        let subscription = sender.subscribe("a")
        let body = try sender.sealed("x", for: subscription)
        #expect(try sender.push("a", body: body.dropLast() + body.suffix(1).map { $0 ^ 1 }).reason == "Undecryptable")
        #expect(try sender.push("a", body: [1]).reason == "Undecryptable")
        #expect(try sender.push("a", ["content-encoding": "aesgcm"], body: body).reason == "BadContentEncoding")
        #expect(try sender.push("a", ["content-encoding": ""], body: body).reason == "BadContentEncoding")
        let other = try sender.sealed("x", for: sender.subscribe("b"))
        #expect(try sender.push("a", body: other).reason == "Undecryptable")
    }

    @Test func `a body has 4096 bytes at most`() throws {
        let sender = try Sender()
        let subscription = sender.subscribe("a")
        let longest = try sender.sealed(
            String(repeating: "x", count: WebPushEncryption.plaintextLimit), for: subscription)
        #expect(longest.count == 4096)
        #expect(try sender.push("a", body: longest).status == 201)
        #expect(try sender.push("a", body: longest + [0]).status == 413)
    }

    @Test(arguments: [
        (["ttl": ""], 400, "MissingTTL"), (["ttl": "-1"], 400, "BadTTL"), (["ttl": "soon"], 400, "BadTTL"),
        (["ttl": "99999999999999999999"], 400, "BadTTL"), (["urgency": "HIGH"], 400, "BadUrgency"),
        (["urgency": "high, low"], 400, "BadUrgency"),
        (["topic": String(repeating: "t", count: 33)], 400, "BadTopic"), (["topic": "a+b"], 400, "BadTopic"),
        (["topic": "a="], 400, "BadTopic"), (["authorization": ""], 401, "Unauthorized"),
        (["authorization": "Bearer x"], 401, "Unauthorized"),
        (["authorization": "vapid t=x, k=y"], 401, "Unauthorized"),
        (["authorization": "vapid"], 401, "Unauthorized"), (["authorization": "vapid ,=,t"], 401, "Unauthorized"),
    ])
    func `headers are checked`(changes: [String: String], status: Int, reason: String) throws {
        let answer = try Sender().push("a", changes)
        #expect(answer.status == status && answer.reason == reason)
        #expect((answer.headers["www-authenticate"] == "vapid") == (status == 401))
    }

    @Test(arguments: [
        ["ttl": "0"], ["urgency": "very-low"], ["urgency": ""], ["topic": ""],
        ["topic": String(repeating: "t", count: 32)],
    ])
    func `a body within the limit is accepted`(changes: [String: String]) throws {
        #expect(try Sender().push("a", changes).status == 201)
    }

    @Test func `a long time to live is shortened`() throws {
        #expect(try Sender().push("a", ["ttl": "9999999"]).headers["ttl"] == "2419200")
    }

    @Test func `other methods and repeated headers are refused`() throws {
        let sender = try Sender()
        #expect(try sender.push("a", method: "PUT").status == 405)
        #expect(try sender.push("a", repeated: ["ttl"]).reason == "DuplicateHeaders")
        #expect(try sender.push("a", repeated: ["x"]).status == 201)
    }

    @Test func `the token is for this service, for a day, and signed by the key it shows`() throws {
        let sender = try Sender()
        func status(_ authorization: String) throws -> Int {
            try sender.push("a", ["authorization": authorization]).status
        }
        #expect(try status(sender.vapid(lifetime: 86_400)) == 201)
        #expect(try status(sender.vapid(lifetime: 86_401)) == 403)
        #expect(try status(sender.vapid(lifetime: 0)) == 403)
        #expect(try status(sender.vapid(audience: "https://127.0.0.1:8443")) == 201)
        #expect(try status(sender.vapid(audience: "https://push.example:443")) == 403)
        #expect(try status(sender.vapid(audience: "http://push.example")) == 403)
        #expect(try status(sender.vapid(contact: nil)) == 201)
        #expect(try status(sender.vapid(contact: "bob")) == 403)
        #expect(try status(sender.vapid(algorithm: "none")) == 403)
        let other = try ProviderKey(.bytes(SelfSignedCertificate(hosts: ["o"]).key), for: .es256)
        #expect(try status(sender.vapid(signer: other)) == 403)
        #expect(try status(sender.vapid().replacingSpaces) == 201)
    }

    @Test func `a usual port is no part of the origin`() throws {
        let sender = try Sender()
        let host = ["host": "", ":authority": "Push.Example:443"]
        #expect(try sender.push("a", host).status == 201)
        #expect(try sender.push("a", ["host": "push.example:80"]).status == 403)
    }

    @Test func `a subscription may be for one sender only`() throws {
        let sender = try Sender()
        #expect(sender.subscribe("mine", "{\"vapid\":\"\(sender.point)\"}").status == 200)
        #expect(try sender.push("mine").status == 201)
        let other = String(decoding: Base64.url.encode(try P256KeyPair().publicKey), as: UTF8.self)
        #expect(sender.subscribe("theirs", "{\"vapid\":\"\(other)\"}").status == 200)
        #expect(try sender.push("theirs").status == 403)
    }

    @Test(arguments: ["[]", "{", #"{"vapid":1}"#, #"{"vapid":"AAAA"}"#, #"{"key":"x"}"#])
    func `an invalid subscription is refused`(body: String) throws {
        #expect(try Sender().subscribe("a", body).status == 400)
        #expect(try Sender().subscribe("a%2Fb").status == 400)
    }

    @Test(arguments: [
        (404, "NotFound"), (410, "Gone"), (413, "PayloadTooLarge"), (429, "TooManyRequests"), (503, "InternalError"),
    ])
    func `a push fails as planned`(status: Int, reason: String) throws {
        let sender = try Sender()
        #expect(sender.provider.plan("a", "{\"status\":\(status),\"retry_after\":9,\"times\":1}") == 200)
        let answer = try sender.push("a")
        #expect(answer.status == status && answer.reason == reason && answer.headers["retry-after"] == "9")
        #expect(sender.provider.semantics.records.first?.isAccepted == false)
        #expect(try sender.push("a").status == 201)
        #expect(try sender.push("fail-\(status)-b").status == status)
    }

    @Test func `a receipt may be promised, and a connection broken`() throws {
        let sender = try Sender()
        #expect(sender.provider.plan("a", #"{"status":202}"#) == 200)
        let answer = try sender.push("a")
        #expect(answer.status == 202 && answer.headers["ttl"] == "30")
        #expect(sender.provider.plan("a", #"{"action":"reset","delay_ms":5}"#) == 200)
        let broken = try sender.push("a")
        #expect(broken.fault == .reset && broken.status == 0 && broken.delay == .milliseconds(5))
    }
}

extension String {
    fileprivate var replacingSpaces: String { split(separator: ", ").joined(separator: ",\t") }
}
