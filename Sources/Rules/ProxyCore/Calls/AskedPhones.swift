import Addressing
import SIPTransactions
import Timekeeping

/// Phones that were sent the INVITE of an ended call, and whose lists of missed calls wait for the response. If the
/// phone responds, it shows the call by itself, and the call is removed from the list.
///
/// A phone has two seconds in total, for any number of ended calls.
struct AskedPhones {
    private struct Question {
        var open: Set<ClientTransactionID>
        let until: Instant
    }

    private var questions: [DeviceID: Question] = [:]

    static let patience: Duration = .seconds(2)

    /// Whether the phone's list of missed calls has to wait.
    func isAsked(_ device: DeviceID) -> Bool { !questions.isEmpty && questions[device] != nil }

    /// The phone was sent an INVITE of an ended call in that transaction.
    ///
    /// - Returns: when ``timeOver(of:now:)`` has to be called; `nil` if an earlier call of this method has returned the
    ///   time.
    mutating func asked(_ device: DeviceID, by client: ClientTransactionID, now: Instant) -> Instant? {
        guard questions[device] == nil else {
            questions[device]?.open.insert(client)
            return nil
        }
        let until = now + Self.patience
        questions[device] = Question(open: [client], until: until)
        return until
    }

    /// The phone has responded, or the transaction ended without a response.
    ///
    /// - Returns: whether the phone's list waits for no other response.
    mutating func answered(_ device: DeviceID, by client: ClientTransactionID) -> Bool {
        guard questions[device]?.open.remove(client) != nil, questions[device]?.open.isEmpty == true else {
            return false
        }
        questions[device] = nil
        return true
    }

    /// The two seconds are over: the phone's list of missed calls waits no longer, unless the phone was sent another
    /// INVITE since.
    mutating func timeOver(of device: DeviceID, now: Instant) {
        if let question = questions[device], question.until <= now { questions[device] = nil }
    }
}
