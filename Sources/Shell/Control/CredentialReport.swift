package import HTTPServices
import PushDelivery
import PushSending
import Timekeeping

/// The state of an app's credentials, from the last trial request and later pushes.
package struct CredentialReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "Credentials"
    package static let notes: [String: JSONSchema] = [
        "state": .words(
            "works: the provider takes them; reached: the provider answers, and judges credentials only with a push; refused; failed: the provider was not reached, or failed; untried."
        ),
        "since": .words("The time since which the state is unchanged, in Unix seconds."),
        "triedAt": .words("The time of the last trial, in Unix seconds."),
        "reason": .words("Why the state is not `works`."),
        "cure": .words("The cure of the problem, for the operator."),
    ]

    package enum State: String, Sendable {
        case works, reached, refused, failed, untried
    }

    package var state = State.untried.rawValue
    package var since: Int64?
    package var triedAt: Int64?
    package var reason: String?
    package var cure: String?

    init() {}

    /// Creates the report from the last trial request and the pushes. If a push came after the trial request, the
    /// report has the result of the push, because it is more reliable.
    init(_ standing: CredentialStanding?, _ report: PushAppReport) {
        if let standing {
            (since, triedAt) = (standing.since.seconds, standing.triedAt.seconds)
            switch standing.verdict {
            case .works: state = State.works.rawValue
            case .reached(let words): (state, reason) = (State.reached.rawValue, words)
            case .refused(let words, let cure): (state, reason, self.cure) = (State.refused.rawValue, words, cure)
            case .failed(let words, let cure): (state, reason, self.cure) = (State.failed.rawValue, words, cure)
            }
        }
        let tried = standing?.triedAt ?? UnixTime(seconds: .min / 2)
        if let refusal = report.refusal, let date = report.refusedAt, date > tried {
            // The cure of the trial also applies to a push that the provider refused for the same reason.
            if reason != refusal { cure = nil }
            (state, since, reason) = (State.refused.rawValue, date.seconds, refusal)
        } else if let accepted = report.acceptedAt, accepted > tried, state != State.works.rawValue {
            (state, since, reason, cure) = (State.works.rawValue, accepted.seconds, nil, nil)
        }
    }
}
