import Addressing
import SIPTransactions
import Timekeeping

/// Phones that have been sent the INVITE of a call that is over, and whose lists of missed calls wait for their answer: a call
/// that the phone shows by itself is not in its list.
///
/// A phone has two seconds in all, however many such calls there are.
struct AskedPhones {
    private struct Question {
        var open: Set<ClientTransactionID>
        let until: Instant
    }

    private var questions: [DeviceID: Question] = [:]

    static let patience: Duration = .seconds(2)

    /// Whether the phone's list has to wait.
    func isAsked(_ device: DeviceID) -> Bool { !questions.isEmpty && questions[device] != nil }

    /// The phone is asked by that transaction.
    ///
    /// - Returns: when ``timeOver(of:now:)`` is to be told; `nil` where it is known already.
    mutating func asked(_ device: DeviceID, by client: ClientTransactionID, now: Instant) -> Instant? {
        guard questions[device] == nil else {
            questions[device]?.open.insert(client)
            return nil
        }
        let until = now + Self.patience
        questions[device] = Question(open: [client], until: until)
        return until
    }

    /// The phone has answered, or will not.
    ///
    /// - Returns: whether that was the last answer that its list has waited for.
    mutating func answered(_ device: DeviceID, by client: ClientTransactionID) -> Bool {
        guard questions[device]?.open.remove(client) != nil, questions[device]?.open.isEmpty == true else {
            return false
        }
        questions[device] = nil
        return true
    }

    /// Lists of the phone are not held up any longer, unless it was asked anew.
    mutating func timeOver(of device: DeviceID, now: Instant) {
        if let question = questions[device], question.until <= now { questions[device] = nil }
    }
}
