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

    func questionAnswered(_ question: Question, _ response: SIPResponse, of client: ClientTransactionID, now: Moment) {
        switch question {
        // That it came is a sign of life on its flow.
        case .phone: if response.status.isFinal { counters.count(.phoneAnswered) }
        case .upstream(let place):
            if response.status.isFinal { _ = legs.endQuestion(client) }
            upstreamAnswered(at: place, now: now)
        case .ourselves:
            if response.status.isFinal { _ = legs.endQuestion(client) }
            ownNameAnswered()
        }
    }

    /// Nothing came back within the time of a transaction, or no connection could be made.
    func questionFailed(_ client: ClientTransactionID, wasSent: Bool, now: Moment) {
        switch legs.endQuestion(client) {
        case .upstream(let place)?: upstreamIsSilent(at: place, wasSent: wasSent, now: now)
        case .ourselves(let place)?: ownNameFailed(at: place)
        case .phone?, nil: break
        }
    }
}
