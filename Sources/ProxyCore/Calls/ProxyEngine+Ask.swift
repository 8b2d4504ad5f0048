import Addressing
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Phones that may be awake although they say nothing: with its push, a call asks the connection that the phone registered on.
extension ProxyEngine {
    /// Sends an OPTIONS on the flow of a phone that is waited for. Whatever comes back is a sign of life, and lets the call out
    /// (``noteLife(on:by:now:)``); a phone whose system only holds the connection says nothing, and is waited for.
    ///
    /// A question that has no answer yet stands for all calls that come meanwhile.
    func ask(_ target: ForkTarget, now: Moment) {
        guard mayAsk(target), !transactions.clients(on: target.flow).contains(where: { legs.isQuestion($0) }),
            let listener = identity.listener(for: target.flow),
            let domain = registrar.bindings.binding(target.binding)?.aor.host,
            let client = transactions.makeClientTransaction()
        else { return }
        let question = PhoneQuestion(
            contact: target.requestURI, domain: domain, via: via(for: client, listener: listener, loopHash: 0),
            number: functions.random())
        let request = OutgoingRequest(
            bytes: question.bytes, method: .options, cseqNumber: 1, requestURI: 0..<0, viaRow: 0..<0, fromRow: 0..<0,
            toRow: 0..<0, callIDRow: 0..<0, routeRows: [])
        counters.count(.phoneAsked)
        legs.startQuestion(client)
        withTransactions { $0.start(client, request: request, on: target.flow, now: now.instant, into: &$1) }
    }

    /// Only flows that carry one phone are asked: those of trusted peers and of edges carry many.
    private func mayAsk(_ target: ForkTarget) -> Bool {
        guard target.flow.isConnection || !target.flow.transport.isReliable && settings.call.asksDatagrams else {
            return false
        }
        return settings.call.asksConnections && isWatched(target)
    }
}
