package import Timekeeping

/// A request that shows whether a provider accepts the credentials of an app, and that reaches no phone.
package struct CredentialTrial: Sendable {
    /// The part of the app that the request tests, such as one of its topics; empty if the app has a single trial.
    package let subject: String
    package let request: ProviderRequest
    /// Whether the request contains the app's credential. A trial without a credential only shows whether the server
    /// can be reached.
    package let showsCredential: Bool

    init(_ request: ProviderRequest, of subject: String = "", showsCredential: Bool = true) {
        self.subject = subject
        self.request = request
        self.showsCredential = showsCredential
    }

    /// The maximum number of trials for one app.
    static let limit = 8
}

/// The result of a trial.
package enum TrialVerdict: Hashable, Sendable {
    /// The provider accepts the credentials.
    case works
    /// The server answers, but checks credentials only with a real push. The text says why.
    case reached(String)
    /// The provider refuses the credentials, or the app that the settings describe. `cure` says what to do.
    case refused(String, cure: String)
    /// The provider could not be reached, or failed. `cure` says what to do.
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

    /// The verdict with the tested part of the app in front of its reason.
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
    /// The verdict on an answer that reports a failure of the provider itself.
    static func providerFails(_ answer: ProviderAnswer) -> TrialVerdict {
        .failed(
            "the provider answers \(answer.status)", cure: "Look at the provider's status page, and try again later.")
    }

    /// The verdict on any answer of a server that checks credentials only with a push.
    static func anyAnswer(_ answer: ProviderAnswer, _ words: String) -> TrialVerdict {
        answer.isFailureOfProvider ? providerFails(answer) : .reached(words)
    }
}

extension ProviderAnswer {
    /// How many seconds this machine's clock is ahead of the `Date` of an answer; negative if the clock is behind.
    ///
    /// - Parameters:
    ///   - text: the header field `Date`.
    ///   - now: the time when the answer came.
    /// - Returns: `nil` if the field is missing or contains no date.
    package static func clockLead(over text: String?, now: UnixTime) -> Int64? {
        text.flatMap { RetryAfter.date($0) }.map { now.seconds.subtractingReportingOverflow($0).partialValue }
    }
}

extension PushApp {
    /// The requests that show whether the provider accepts our credentials. An app that needs no credentials and has no
    /// server has none.
    package var trials: [CredentialTrial] { Array(rules.trials.prefix(CredentialTrial.limit)) }

    /// The verdict on the answer to a trial.
    package func verdict(on answer: ProviderAnswer) -> TrialVerdict { rules.verdict(onTrial: answer) }
}
