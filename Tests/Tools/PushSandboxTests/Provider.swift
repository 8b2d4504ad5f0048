import Crypto
import JSON
import PushSandbox

/// The sandbox's imitated providers, with a fixed time and their own keys.
struct Provider {
    static let milliseconds: Int64 = 1_623_753_691_000
    static let token = String(repeating: "0a", count: 32)
    static let usualHeaders = [
        "apns-topic": "com.example.phone.voip", "apns-push-type": "voip", "apns-priority": "10",
        "apns-expiration": "0",
    ]
    static let call = #"{"aps":{},"acme":{"type":"invite"}}"#
    static let scope = "https://www.googleapis.com/auth/firebase.messaging"

    let semantics: ProviderSemantics
    private let apnsKey: ProviderKey

    init() throws {
        apnsKey = try ProviderKey(.bytes(SelfSignedCertificate(hosts: ["a"]).key), for: .es256)
        semantics = ProviderSemantics(apnsKey: apnsKey, accountKey: try Keys.account()) { Self.milliseconds }
    }

    /// Sends a push to APNs with the daemon's header fields, changed as given. If the changed value of a header field
    /// is empty, the request lacks the header field.
    func apns(
        _ changes: [String: String] = [:], token: String = Provider.token, method: String = "POST",
        repeated: Set<String> = [], body: String = Provider.call
    ) throws -> SandboxAnswer {
        var headers = Self.usualHeaders
        headers["authorization"] = "bearer \(try webToken())"
        headers = headers.merging(changes) { $1 }.filter { !$0.value.isEmpty }
        var request = SandboxRequest(
            method: method, target: "/3/device/\(token)", headers: headers, body: Array(body.utf8), version: "h2",
            connection: 7)
        request.repeatedHeaders = repeated
        return semantics.answer(request)
    }

    func webToken(
        header: String = #"{"alg":"ES256","kid":"KEY1234567"}"#, age: Int64 = 0, key: ProviderKey? = nil
    ) throws -> String {
        let claims = #"{"iss":"TEAM123456","iat":\#(Self.milliseconds / 1000 - age)}"#
        return String(
            decoding: try (key ?? apnsKey).token(header: Array(header.utf8), claims: Array(claims.utf8)), as: UTF8.self)
    }

    func post(_ target: String, _ headers: [String: String] = [:], _ body: String) -> SandboxAnswer {
        semantics.answer(request("POST", target, headers, body))
    }

    func request(
        _ method: String, _ target: String, _ headers: [String: String] = [:], _ body: String = ""
    ) -> SandboxRequest {
        SandboxRequest(
            method: method, target: target, headers: headers, body: Array(body.utf8), version: "http/1.1",
            connection: 3)
    }

    /// Sets the failure plan of a token, and returns the status of the answer.
    func plan(_ token: String, _ plan: String) -> Int {
        semantics.answer(request("PUT", "/sandbox/tokens/\(token)", [:], plan)).status
    }

    func grant(
        scope: String = Provider.scope, lifetime: Int64 = 3600, age: Int64 = 0, audience: String = "http://x/token",
        key: ProviderKey? = nil
    ) throws -> SandboxAnswer {
        let made = Self.milliseconds / 1000 - age
        let claims =
            #"{"iss":"a@b","scope":"\#(scope)","aud":"\#(audience)","iat":\#(made),"exp":\#(made + lifetime)}"#
        let token = try (key ?? Keys.account()).token(
            header: Array(#"{"alg":"RS256"}"#.utf8), claims: Array(claims.utf8))
        let type = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
        return post("/token", [:], "\(type)&assertion=\(String(decoding: token, as: UTF8.self))")
    }

    func fcm(_ message: String, authorization: String? = nil) throws -> SandboxAnswer {
        let token = try grant().json["access_token"]?.string ?? ""
        return post(
            "/v1/projects/sandbox/messages:send", ["authorization": authorization ?? "Bearer \(token)"],
            "{\"message\":\(message)}")
    }

    func legacy(_ body: String, authorization: String = "key=secret") -> SandboxAnswer {
        post("/fcm/send", ["authorization": authorization], body)
    }
}

enum Keys {
    /// The private key of the Google service account. All tests share one key, because making a key takes long.
    private static let accountPEM = Result { try GeneratedKey.rsa() }

    static func account() throws -> ProviderKey { try ProviderKey(.bytes(accountPEM.get()), for: .rs256) }
}

extension SandboxAnswer {
    var json: JSONValue { (try? JSONValue(body)) ?? .null }
    var reason: String? { json["reason"]?.string }
    /// FCM's error code in the sandbox's answer.
    var errorCode: String? { json["error"]?["details"]?.array?.first?["errorCode"]?.string }
    /// The results in an answer of FCM's legacy interface: "sent" for a message id, otherwise the error.
    var results: [String] {
        json["results"]?.array?.map { $0["error"]?.string ?? ($0["message_id"] == nil ? "?" : "sent") } ?? []
    }
}
