package import Timekeeping

/// A request that shows whether a provider accepts an app's credentials, and that reaches no phone.
package struct CredentialTrial: Sendable {
    /// The object of the trial, for example one topic of the app; empty if the app has only one trial.
    package let subject: String
    package let request: ProviderRequest
    /// Whether the request contains the app's credential. Without a credential, the trial only shows whether the server
    /// answers.
    package let showsCredential: Bool

    init(_ request: ProviderRequest, of subject: String = "", showsCredential: Bool = true) {
        self.subject = subject
        self.request = request
        self.showsCredential = showsCredential
    }

    /// The maximum number of trial requests for one app.
    static let limit = 8
}

/// The result of testing an app's credentials.
package enum TrialVerdict: Hashable, Sendable {
    /// The push provider accepts the app's credentials.
    case works
    /// The server answers, but checks credentials only with a real push; the text gives details.
    case reached(String)
    /// The provider refuses the credentials or the app; `cure` tells the operator how to correct the settings.
    case refused(String, cure: String)
    /// The provider could not be reached or reported its own failure; `cure` tells the operator how to reach the
    /// provider.
    case failed(String, cure: String)

    /// The severity of the verdict: a higher number is worse.
    private var weight: Int {
        switch self {
        case .works: 0
        case .reached: 1
        case .failed: 2
        case .refused: 3
        }
    }

    package func isWorse(than other: TrialVerdict) -> Bool { weight > other.weight }

    /// The verdict, with the tested part of the app before the reason.
    package func about(_ subject: String) -> TrialVerdict {
        guard !subject.isEmpty else { return self }
        return switch self {
        case .works: self
        case .reached(let words): .reached("\(subject): \(words)")
        case .refused(let reason, let cure): .refused("\(subject): \(reason)", cure: cure)
        case .failed(let reason, let cure): .failed("\(subject): \(reason)", cure: cure)
        }
    }
}

extension TrialVerdict {
    /// The verdict on an answer by which the provider reports its own failure.
    static func providerFails(_ answer: ProviderAnswer) -> TrialVerdict {
        .failed(
            "the provider answers \(answer.status)", cure: "Look at the provider's status page, and try again later.")
    }

    /// The verdict on an answer of a server that checks credentials only with a real push.
    static func anyAnswer(_ answer: ProviderAnswer, _ words: String) -> TrialVerdict {
        answer.isFailureOfProvider ? providerFails(answer) : .reached(words)
    }
}

extension ProviderAnswer {
    /// How many seconds this machine's clock is ahead of the provider's clock; negative if this machine's clock is
    /// behind.
    ///
    /// - Parameters:
    ///   - text: the value of the header field `Date` in the provider's answer.
    ///   - now: this machine's time when the answer arrived.
    /// - Returns: the seconds; `nil` if the header field is missing or contains no date.
    package static func clockLead(over text: String?, now: UnixTime) -> Int64? {
        text.flatMap { RetryAfter.date($0) }.map { now.seconds.subtractingReportingOverflow($0).partialValue }
    }
}

extension PushApp {
    /// The requests that show whether the provider accepts the app's credentials; empty for an app that has neither
    /// credentials nor a server.
    package var trials: [CredentialTrial] { Array(rules.trials.prefix(CredentialTrial.limit)) }

    /// The verdict on the app's credentials, by the provider's answer to a trial request.
    package func verdict(on answer: ProviderAnswer) -> TrialVerdict { rules.verdict(onTrial: answer) }
}
