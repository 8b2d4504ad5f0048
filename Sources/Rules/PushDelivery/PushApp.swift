package import Bytes
package import Timekeeping

/// An app at one push provider, with the server for its pushes, the payload format and the limits.
///
/// ``PushApp`` is a class, so that all pushes share one immutable instance.
package final class PushApp: Sendable {
    /// The app's index in the ``PushDirectory``.
    package struct ID: Hashable, Sendable { package let index: Int }

    package let id: ID
    package let provider: PushProvider
    /// The app's name in logs and commands: the provider's name or, for a further app of the provider, `provider/name`.
    package let name: String
    /// The provider's rules for building requests and reading answers.
    package let rules: any PushAppRules
    let payload: PayloadSettings

    init(id: ID, provider: PushProvider, name: String, rules: any PushAppRules, payload: PayloadSettings) {
        self.id = id
        self.provider = provider
        self.name = name
        self.rules = rules
        self.payload = payload
    }

    /// Builds the request for one try of a push.
    ///
    /// - Parameters:
    ///   - push: the push and its device, whose token belongs to the app.
    ///   - isSmallest: whether the payload is as small as possible, because the server refused a larger payload.
    ///   - deviceCode: the code by which the app's reports name the device, if ``asksForDeviceCode`` is true.
    ///   - now: the time of the try, from which lifetimes are counted.
    /// - Returns: the request, or the outcome of a push for which no request can be built.
    package func render(
        _ push: PushRequest, isSmallest: Bool = false, deviceCode: ByteString? = nil, now: UnixTime
    ) -> PushRendering {
        var context = PayloadContext(
            push: isSmallest ? push.smallest : push, deviceCode: deviceCode, settings: payload, now: now)
        let whole = rules.request(context)
        guard case .impossible(.payloadRefused) = whole, context.mustHaveTie else { return whole }
        // A long Call-ID or name must not prevent the push, because the caller chooses both.
        context.isShort = true
        return rules.request(context)
    }

    /// Whether payloads contain the device's code, which the app needs for its reports about pushes.
    package var asksForDeviceCode: Bool { rules.asksForDeviceCode }

    /// Converts the provider's answer to a push into an outcome.
    ///
    /// - Parameters:
    ///   - answer: the answer to a request that ``render(_:deviceCode:now:)`` has built.
    ///   - isProven: whether the provider has accepted a push of the app before; if not, a "foreign token" answer is
    ///     treated as a wrong setting.
    ///   - now: the present time, from which a date in `Retry-After` is counted.
    /// - Returns: the outcome of the try.
    package func outcome(of answer: ProviderAnswer, isProven: Bool, now: UnixTime) -> PushOutcome {
        rules.outcome(
            of: answer, answer.retryAfter.flatMap { RetryAfter.duration($0, now: now) }, isProven: isProven)
    }

    /// The scheme, host and port of the server for all pushes; `nil` if each token names its server, see
    /// ``origin(of:)``.
    package var baseURL: String? { rules.baseURL }

    /// The scheme, host and non-standard port of the server that a token names, for an app without ``baseURL``; `nil`
    /// if no push can be sent.
    package func origin(of token: PushToken) -> String? { rules.origin(of: token) }

    /// Whether the daemon connects before the first push, because all pushes use one server over TLS.
    package var keepsConnection: Bool { baseURL?.hasPrefix("https:") == true }

    package var limits: ProviderLimits { rules.limits }

    /// The limits for each server that tokens name, if phones choose the servers; `nil` if the settings name the servers.
    package var chosenHosts: ChosenHostRules? { rules.chosenHosts }
}
