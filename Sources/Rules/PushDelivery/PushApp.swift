package import Bytes
package import Timekeeping

/// One app at one provider: the server of its pushes, their form, and its limits.
///
/// This is a class, because each push reads it, and it never changes.
package final class PushApp: Sendable {
    /// The app's place in the ``PushDirectory``.
    package struct ID: Hashable, Sendable { package let index: Int }

    package let id: ID
    package let provider: PushProvider
    /// The name in logs and commands: the provider's name or, for further apps, `provider/name`.
    package let name: String
    /// The rules of the app's provider, from the provider's folder.
    package let rules: any PushAppRules
    let payload: PayloadSettings

    init(id: ID, provider: PushProvider, name: String, rules: any PushAppRules, payload: PayloadSettings) {
        self.id = id
        self.provider = provider
        self.name = name
        self.rules = rules
        self.payload = payload
    }

    /// Writes the request of one try.
    ///
    /// - Parameters:
    ///   - push: the message and its device. The token of the push belongs to this app.
    ///   - deviceCode: the name of the device in the app's reports, if ``asksForDeviceCode`` is true.
    ///   - now: the time of the try, from which lifetimes are counted.
    /// - Returns: the request, or the outcome of the push if none is possible.
    package func render(_ push: PushRequest, deviceCode: ByteString? = nil, now: UnixTime) -> PushRendering {
        rules.request(PayloadContext(push: push, deviceCode: deviceCode, settings: payload, now: now))
    }

    /// Whether payloads carry a code. The app names its device by that code when it reports on a push.
    package var asksForDeviceCode: Bool { rules.asksForDeviceCode }

    /// The outcome that a provider's answer means.
    ///
    /// - Parameters:
    ///   - answer: the answer to a request that ``render(_:deviceCode:now:)`` made.
    ///   - isProven: whether the provider has accepted a push of this app before. Until then, an answer that
    ///     calls the token foreign is blamed on our settings, so that no contact is lost to a wrong setting.
    ///   - now: the time that a date in `Retry-After` is compared with.
    /// - Returns: the outcome of this try.
    package func outcome(of answer: ProviderAnswer, isProven: Bool, now: UnixTime) -> PushOutcome {
        rules.outcome(
            of: answer, answer.retryAfter.flatMap { RetryAfter.duration($0, now: now) }, isProven: isProven)
    }

    /// The scheme, host and port of the server for all requests; `nil` if each token names its own server, see
    /// ``origin(of:)``.
    package var baseURL: String? { rules.baseURL }

    /// The server that this token names, if the app has no ``baseURL``: scheme, host, and any non-standard port. `nil`
    /// for a token that cannot be pushed.
    package func origin(of token: PushToken) -> String? { rules.origin(of: token) }

    /// Whether a connection is opened before the first push. That is so if all pushes go to one server over TLS.
    package var keepsConnection: Bool { baseURL?.hasPrefix("https:") == true }

    package var limits: ProviderLimits { rules.limits }
}
