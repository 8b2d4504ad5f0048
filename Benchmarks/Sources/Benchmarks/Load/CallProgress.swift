import Bytes
import SIPGrammar
package import Timekeeping

/// One call of the load: what has happened to it, as caller, phone and push gateway saw it.
package struct CallProgress: Sendable {
    package var invited: Instant?
    package var hasTrying = false
    package var pushed: Instant?
    package var pushes = 0
    package var woken: Instant?
    /// The final answer to the waking REGISTER, 0 for none.
    package var registerStatus: Int?
    package var delivered: Instant?
    /// The caller's final answer.
    package var finalStatus: Int?
    package var isAcknowledged = false
    /// The 200 that the caller got, while the call lasts; its BYE is made from it.
    var accepted: SIPResponse?
    /// The caller's BYE was answered.
    package internal(set) var hasEnded = false

    /// When the caller's INVITE or the phone's 200 is due again, and how often it was sent.
    var next = Instant.distantFuture
    var tries = 0
    /// The phone's 200, which is sent again until the ACK comes.
    var answer: [UInt8] = []

    package init() {}

    /// Nothing will happen any more.
    package var isOver: Bool { isAcknowledged || (finalStatus ?? 0) >= 300 }

    /// How far it came, for a call that was lost.
    package var story: String {
        var parts = [invited == nil ? "not sent" : "INVITE sent"]
        if hasTrying { parts.append("100 received") }
        parts.append(pushes == 0 ? "no push" : pushes == 1 ? "pushed" : "pushed \(pushes) times")
        if woken != nil {
            let answer = registerStatus.map { $0 == 0 ? "never answered" : "answered \($0)" }
            parts.append("REGISTER " + (answer ?? "not answered yet"))
        }
        parts.append(delivered == nil ? "INVITE not delivered" : "INVITE delivered")
        parts.append(finalStatus.map { "caller got \($0)" } ?? "caller got no final answer")
        parts.append(isAcknowledged ? "phone got ACK" : "phone got no ACK")
        return parts.joined(separator: ", ")
    }
}
