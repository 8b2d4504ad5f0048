package import Bytes
package import Timekeeping

/// One app at one provider: the server of its pushes, their form, and its limits.
///
/// A class, because it is read for each push, and never changes.
package final class PushApp: Sendable {
    /// Its place in the ``PushDirectory``.
    package struct ID: Hashable, Sendable { package let index: Int }

    /// The settings of the provider. The folder with its name has the form of its requests and the meaning of its
    /// answers.
    package enum Service: Sendable {
        case apns(APNsSettings)
        case fcm(FCMSettings)
        case webPush(WebPushSettings)
        case acrobits(AcrobitsSettings)
        case http(HTTPPushAppSettings)
    }

    package let id: ID
    package let provider: PushProvider
    /// The name in logs and commands: the provider's name or, for further apps, `provider/name`.
    package let name: String
    package let service: Service
    let payload: PayloadSettings
    private let form: Form

    /// The parts that all requests share, made once.
    private enum Form {
        case apns(APNsRequest)
        case fcm(FCMRequest)
        case fcmLegacy(FCMLegacyRequest)
        case webPush(WebPushSettings)
        case acrobits(AcrobitsSettings)
        case http(HTTPPushAppSettings)
    }

    init(id: ID, provider: PushProvider, name: String, service: Service, payload: PayloadSettings) {
        self.id = id
        self.provider = provider
        self.name = name
        self.service = service
        self.payload = payload
        form =
            switch service {
            case .apns(let settings): .apns(APNsRequest(settings, provider))
            case .fcm(let settings):
                switch settings.bodyFormat {
                case .v1: .fcm(FCMRequest(settings))
                case .legacy: .fcmLegacy(FCMLegacyRequest(settings))
                }
            case .webPush(let settings): .webPush(settings)
            case .acrobits(let settings): .acrobits(settings)
            case .http(let settings): .http(settings)
            }
    }

    /// Writes the request of one try.
    ///
    /// - Parameters:
    ///   - push: the message and its device; its token belongs to this app.
    ///   - deviceCode: the name of the device in the app's reports, if the app ``asksForDeviceCode``.
    ///   - now: the time of the try, from which lifetimes are counted.
    /// - Returns: the request, or the outcome of the push if none is possible.
    package func render(_ push: PushRequest, deviceCode: ByteString? = nil, now: UnixTime) -> PushRendering {
        let context = PayloadContext(push: push, deviceCode: deviceCode, settings: payload, now: now)
        switch form {
        case .apns(let requests): return requests.make(context)
        case .fcm(let requests): return requests.make(context)
        case .fcmLegacy(let requests): return requests.make(context)
        case .webPush(let settings): return WebPushRequest.make(context, settings)
        case .acrobits(let settings): return AcrobitsRequest.make(context, settings)
        case .http(let settings): return HTTPPushRequest.make(context, settings)
        }
    }

    /// Whether payloads contain a code by which the app names the device in its reports.
    package var asksForDeviceCode: Bool {
        switch service {
        case .apns(let settings): settings.payload == .tenDarts
        case .fcm(let settings): settings.payload == .tenDarts
        case .webPush(let settings): settings.payload == .tenDarts
        case .acrobits, .http: false
        }
    }

    /// The outcome that an answer means.
    ///
    /// - Parameters:
    ///   - answer: the answer to a request that ``render(_:deviceCode:now:)`` made.
    ///   - isProven: whether the provider has accepted a push of this app before. Until then, an answer that
    ///     calls the token foreign is blamed on our settings, so that no contact is lost to a wrong setting.
    ///   - now: the time, to which a date in `Retry-After` is compared.
    /// - Returns: the outcome of this try.
    package func outcome(of answer: ProviderAnswer, isProven: Bool, now: UnixTime) -> PushOutcome {
        let retryAfter = answer.retryAfter.flatMap { RetryAfter.duration($0, now: now) }
        switch form {
        case .apns: return APNsReason.outcome(of: answer, retryAfter, isProven: isProven)
        case .fcm: return FCMReason.outcome(of: answer, retryAfter, isProven: isProven)
        case .fcmLegacy: return FCMLegacyReason.outcome(of: answer, retryAfter, isProven: isProven)
        case .webPush: return WebPushReason.outcome(of: answer, retryAfter)
        case .acrobits: return AcrobitsReason.outcome(of: answer, retryAfter)
        case .http(let settings):
            return HTTPPushReason.outcome(of: answer, settings, retryAfter, isProven: isProven)
        }
    }

    /// Scheme, host and port of the server for all requests; `nil` if each token names its own, see ``origin(of:)``.
    package var baseURL: String? {
        switch service {
        case .apns(let settings): settings.url(of: provider)
        case .fcm(let settings): settings.baseURL
        case .webPush: nil
        case .acrobits(let settings): settings.baseURL
        case .http(let settings): settings.url?.baseURL
        }
    }

    /// The server in this token, if the app has no ``baseURL``: scheme, host, and the port unless it is the standard
    /// one. Also `nil` for a token that cannot be pushed.
    package func origin(of token: PushToken) -> String? {
        switch service {
        case .webPush(let settings): WebPushToken(token, allowedAt: settings.hosts)?.origin
        case .apns, .fcm, .acrobits, .http: nil
        }
    }

    /// Whether a connection is opened before the first push: if all pushes go to one server over TLS.
    package var keepsConnection: Bool { baseURL?.hasPrefix("https:") == true }

    package var limits: PushLimits {
        switch service {
        case .apns(let settings): settings.limits
        case .fcm(let settings): settings.limits
        case .webPush(let settings): settings.limits
        case .acrobits(let settings): settings.limits
        case .http(let settings): settings.limits
        }
    }
}
