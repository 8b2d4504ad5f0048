import Addressing
import Bytes
import PushDelivery
import TestSupport
import Timekeeping

/// The date in the ECSS-10 samples for Apple.
let sampleDate = UnixTime(seconds: 1_623_753_691)

func token(_ provider: PushProvider, _ prid: String = "device_token", param: String = "") -> PushToken {
    PushToken(provider: provider, param: ByteString(param), prid: ByteString(prid))
}

func push(
    to token: PushToken, _ message: PushMessage, code: PushCode = sampleCode, badge: Int = 10,
    deadline: UnixTime = sampleDate + .seconds(30), nonce: String? = nil
) -> PushRequest {
    PushRequest(
        id: PushID(rawValue: 1), code: code, device: 71, token: token, message: message,
        badge: badge, deadline: deadline, nonce: nonce.map { ByteString($0) })
}

func incomingCall(
    from uri: String = "sip:103@example.net", name: String = "Anna", isAnonymous: Bool = false,
    at date: UnixTime = sampleDate
) -> PushMessage {
    .incomingCall(
        IncomingCall(
            callRef: CallRef(rawValue: 1), callerURI: ByteString(uri), displayName: ByteString(name),
            isAnonymous: isAnonymous, receivedAt: date, callID: ByteString("a84b4c76e66710@pc33.example.net")))
}

func missedCalls(_ calls: [(String, Int64)]) -> PushMessage {
    .missedCalls(
        calls.enumerated().map { index, call in
            MissedCall(
                remoteURI: ByteString(call.0), date: UnixTime(seconds: call.1),
                callRef: CallRef(rawValue: UInt64(index) + UInt64(bitPattern: call.1) << 8))
        })
}

/// A device token in a format that Apple and Google accept.
let wellFormed = ByteString(String(repeating: "ab", count: 32))

/// The subscription key and secret of the example in RFC 8291, as a browser sends them in `pn-param`.
let (browserKey, browserSecret) = (
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", "BTBZMqHH6r4Tts7J_aSIgg"
)

let sampleCode = PushCode(high: 0x1234_5678_9abc_def0, low: 0xfedc_ba98_7654_3210)

extension PushSettings {
    /// Settings with all providers switched on, with the topic `com.example.phone` and the project `my-project`.
    static var sample: PushSettings {
        var settings = PushSettings()
        settings.apns.enabled = true
        settings.apns.topics = ["com.example.phone"]
        settings.fcm.enabled = true
        settings.fcm.projectID = "my-project"
        settings.webPush.enabled = true
        settings.acrobits.enabled = true
        return settings
    }

    /// The settings `sample` with this payload profile.
    static func sample(
        _ profile: PayloadProfile, _ type: RemotePushType = .alert, _ format: FCMBodyFormat = .v1
    ) -> PushSettings {
        var settings = sample
        settings.apns.payload = profile
        settings.apns.remotePushType = type
        settings.fcm.payload = profile
        settings.fcm.bodyFormat = format
        settings.webPush.payload = profile
        return settings
    }

    func rendered(_ push: PushRequest, now: UnixTime = sampleDate) -> ProviderRequest? {
        guard case .request(let request) = render(push, now: now) else { return nil }
        return request
    }

    func render(_ push: PushRequest, now: UnixTime = sampleDate) -> PushRendering {
        guard let app = app(of: push.token) else { return .impossible(.noSuitableToken) }
        return app.render(push, now: now)
    }

    /// The outcome of a push to which the provider gives `answer`; `nil` if the provider is disabled.
    func outcome(
        of answer: ProviderAnswer, from provider: PushProvider, isProven: Bool, now: UnixTime
    ) -> PushOutcome? {
        app(of: provider)?.outcome(of: answer, isProven: isProven, now: now)
    }

    /// The first push app of the provider.
    private func app(of provider: PushProvider) -> PushApp? {
        PushDirectory(self).apps.first { $0.provider == provider }
    }

    /// The app to which the token belongs. The token's form is not checked, because short tokens are easier to read in
    /// tests.
    func app(of token: PushToken) -> PushApp? {
        let directory = PushDirectory(self)
        var token = token
        switch token.provider {
        case .apns, .apnsDevelopment, .fcm, .http, .ruStore, .hms:
            token = PushToken(provider: token.provider, param: token.param, prid: wellFormed)
        case .acrobits: token = PushToken(provider: .acrobits, param: ByteString("a"), prid: wellFormed)
        case .webPush: break
        }
        return directory.app(for: token).flatMap { directory[$0] }
    }

    func baseURL(of provider: PushProvider) -> String? { app(of: provider)?.baseURL }

    func pushLimits(of provider: PushProvider) -> ProviderLimits? { app(of: provider)?.limits }

    func body(_ push: PushRequest, now: UnixTime = sampleDate) -> String? {
        rendered(push, now: now)?.text
    }
}

extension ProviderRequest {
    /// The part of the URL after the server's name.
    var path: String {
        let rest = url.drop { $0 != "/" }.dropFirst(2)
        return String(rest.drop { $0 != "/" })
    }

    /// The body of the push request as text.
    var text: String { String(decoding: body, as: UTF8.self) }

    func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}
