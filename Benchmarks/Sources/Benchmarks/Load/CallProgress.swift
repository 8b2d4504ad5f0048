import Bytes
import SIPGrammar
package import Timekeeping

/// The progress of one call, as seen by the caller, the phone and the push gateway.
package struct CallProgress: Sendable {
    package var invited: Instant?
    package var hasTrying = false
    package var pushed: Instant?
    package var pushes = 0
    package var woken: Instant?
    /// The status of the response to the woken phone's REGISTER; 0 if no response came.
    package var registerStatus: Int?
    package var delivered: Instant?
    package var finalStatus: Int?
    package var isAcknowledged = false
    /// The caller's 200, from which the BYE is made; `nil` after the end of the call.
    var accepted: SIPResponse?
    /// Whether the caller's BYE was answered.
    package internal(set) var hasEnded = false

    /// The time of the next retransmission of the caller's INVITE or the phone's 200, and the number of transmissions
    /// so far.
    var next = Instant.distantFuture
    var tries = 0
    /// The phone's 200, retransmitted until the ACK arrives.
    var answer: [UInt8] = []

    package init() {}

    /// Whether the call was answered or has failed.
    package var isOver: Bool { isAcknowledged || (finalStatus ?? 0) >= 300 }

    /// The progress of a lost call, in words.
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
