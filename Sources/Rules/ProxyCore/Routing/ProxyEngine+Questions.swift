import Addressing
import Bytes
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// OPTIONS of our own: transactions that serve no call.
extension ProxyEngine {
    /// Sends one.
    ///
    /// - Parameters:
    ///   - question: what it is to find out.
    ///   - target: the URI of whom it asks.
    ///   - host: stands for us in it.
    ///   - contact: where we are reached, if it says so.
    ///   - flow: the way there.
    ///   - listener: what it leaves by.
    ///   - now: both clocks.
    /// - Returns: false when there is no room for a transaction.
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

    /// Whether a phone was asked by this flow and has not answered.
    func isAsked(by flow: Flow) -> Bool {
        transactions.clients(on: flow).contains { if case .phone? = legs.question($0) { true } else { false } }
    }
}
