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
        guard mayAsk(target), !isAsked(by: target.flow), let listener = identity.listener(for: target.flow),
            let domain = registrar.bindings.binding(target.binding)?.aor.host,
            ask(.phone, at: target.requestURI, as: domain, on: target.flow, by: listener, now: now)
        else { return }
        counters.count(.phoneAsked)
    }

    /// Only flows that carry one phone are asked: those of trusted peers and of edges carry many.
    private func mayAsk(_ target: ForkTarget) -> Bool {
        guard target.flow.isConnection || !target.flow.transport.isReliable && settings.call.asksDatagrams else {
            return false
        }
        return settings.call.asksConnections && isWatched(target)
    }
}
