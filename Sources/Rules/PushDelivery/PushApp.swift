package import Bytes
package import Timekeeping

/// An app at one provider: the server for its pushes, their format, and its limits.
///
/// The type is a class, because each push reads it, and it never changes.
package final class PushApp: Sendable {
    /// The app's index in the ``PushDirectory``.
    package struct ID: Hashable, Sendable { package let index: Int }

    package let id: ID
    package let provider: PushProvider
    /// The app's name in logs and commands: the provider's name or, for further apps, `provider/name`.
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

    /// Writes the request for one try of a push.
    ///
    /// - Parameters:
    ///   - push: the message and its device. The token of the push belongs to this app.
    ///   - deviceCode: the code that identifies the device in the app's reports, if ``asksForDeviceCode`` is true.
    ///   - now: the time of the try, from which lifetimes are counted.
    /// - Returns: the request, or the outcome of the push if there can be no request.
    package func render(_ push: PushRequest, deviceCode: ByteString? = nil, now: UnixTime) -> PushRendering {
        rules.request(PayloadContext(push: push, deviceCode: deviceCode, settings: payload, now: now))
    }

    /// Whether payloads contain a code that identifies the device, which the app sends when it reports about a push.
    package var asksForDeviceCode: Bool { rules.asksForDeviceCode }

    /// The outcome that a provider's answer means.
    ///
    /// - Parameters:
    ///   - answer: the answer to a request that ``render(_:deviceCode:now:)`` made.
    ///   - isProven: whether the provider has accepted a push of this app before. Until then, an answer that calls the
    ///     token foreign counts as a fault of our settings, so that no contact is lost because of a wrong setting.
    ///   - now: the time that a date in `Retry-After` is compared with.
    /// - Returns: the outcome of this try.
    package func outcome(of answer: ProviderAnswer, isProven: Bool, now: UnixTime) -> PushOutcome {
        rules.outcome(
            of: answer, answer.retryAfter.flatMap { RetryAfter.duration($0, now: now) }, isProven: isProven)
    }

    /// The scheme, host and port of the server for all pushes; `nil` if each token names its own server, see
    /// ``origin(of:)``.
    package var baseURL: String? { rules.baseURL }

    /// The server that a token names, if the app has no ``baseURL``: scheme, host, and any non-standard port. Returns
    /// `nil` for a token to which no push can be sent.
    package func origin(of token: PushToken) -> String? { rules.origin(of: token) }

    /// Whether the daemon opens a connection before the first push, because all pushes are sent to one server over TLS.
    package var keepsConnection: Bool { baseURL?.hasPrefix("https:") == true }

    package var limits: ProviderLimits { rules.limits }
}
