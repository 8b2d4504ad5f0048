package import Timekeeping

/// A request that shows whether a provider takes the credentials of an app. It reaches no phone.
package struct CredentialTrial: Sendable {
    /// The part of the app that is tried, such as one of its topics; empty if the app has one trial only.
    package let subject: String
    package let request: ProviderRequest
    /// Whether the request shows the app's credential. Otherwise it only shows that the server can be reached.
    package let showsCredential: Bool

    init(_ request: ProviderRequest, of subject: String = "", showsCredential: Bool = true) {
        self.subject = subject
        self.request = request
        self.showsCredential = showsCredential
    }

    /// How many trials an app may have, whatever its settings list.
    static let limit = 8
}

/// The result of a trial.
package enum TrialVerdict: Hashable, Sendable {
    /// The provider takes the credentials.
    case works
    /// The server answers, and takes or refuses credentials only with a real push. The text says why.
    case reached(String)
    /// The provider refuses the credentials, or the app as the settings describe it.
    case refused(String, cure: String)
    /// The provider was not reached, or failed.
    case failed(String, cure: String)

    /// The worst verdict of several has the highest number.
    private var weight: Int {
        switch self {
        case .works: 0
        case .reached: 1
        case .failed: 2
        case .refused: 3
        }
    }

    package func isWorse(than other: TrialVerdict) -> Bool { weight > other.weight }

    /// The verdict with the tried part of the app before its reason.
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
    /// The verdict on an answer that blames the provider itself.
    static func providerFails(_ answer: ProviderAnswer) -> TrialVerdict {
        .failed(
            "the provider answers \(answer.status)", cure: "Look at the provider's status page, and try again later.")
    }

    /// The verdict on any answer of a server that judges credentials only with a push.
    static func anyAnswer(_ answer: ProviderAnswer, _ words: String) -> TrialVerdict {
        answer.isFailureOfProvider ? providerFails(answer) : .reached(words)
    }
}

extension ProviderAnswer {
    /// How many seconds this machine's clock is ahead of the `Date` of an answer; negative if it is behind.
    ///
    /// - Parameters:
    ///   - text: the header field `Date`.
    ///   - now: the time when the answer came.
    /// - Returns: `nil` if the field is missing or is no date.
    package static func clockLead(over text: String?, now: UnixTime) -> Int64? {
        text.flatMap { RetryAfter.date($0) }.map { now.seconds.subtractingReportingOverflow($0).partialValue }
    }
}

extension PushApp {
    /// Requests that show whether the provider takes our credentials; none for an app that needs none and has no server.
    package var trials: [CredentialTrial] { Array(rules.trials.prefix(CredentialTrial.limit)) }

    /// The verdict on the answer to a trial.
    package func verdict(on answer: ProviderAnswer) -> TrialVerdict { rules.verdict(onTrial: answer) }
}
