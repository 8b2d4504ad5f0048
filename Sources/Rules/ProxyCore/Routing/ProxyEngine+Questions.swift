import Addressing
import Bytes
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// OPTIONS that the daemon itself sends. Their transactions belong to no call.
extension ProxyEngine {
    /// Sends an OPTIONS of the daemon.
    ///
    /// - Parameters:
    ///   - question: the question that the response answers.
    ///   - target: the URI of the receiver.
    ///   - host: the daemon's host in From and Call-ID.
    ///   - contact: the daemon's host and port for Contact; `nil` leaves Contact out.
    ///   - flow: the flow to send on.
    ///   - listener: the listener that Via names.
    ///   - now: the time by both clocks.
    /// - Returns: false if the transaction table is full.
    func ask(
        _ question: Question, at target: ByteString, as host: ByteString, contact: ByteString? = nil, on flow: Flow,
        by listener: Listener, now: Moment
    ) -> Bool {
        guard let client = transactions.makeClientTransaction() else { return false }
        let request = QuestionRequest(
            target: target, host: host, contact: contact, via: via(for: client, listener: listener, loopHash: 0),
            number: functions.random())
        legs.start(client, question)
        withTransactions { $0.start(client, request: request.outgoing, on: flow, now: now.instant, into: &$1) }
        return true
    }

    /// Whether an OPTIONS to a phone is pending on this flow.
    func isAsked(by flow: Flow) -> Bool {
        transactions.clients(on: flow).contains { if case .phone? = legs.question($0) { true } else { false } }
    }
}
