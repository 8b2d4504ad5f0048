import Addressing
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Phones that may be awake although they send nothing: a call sends a push, and an OPTIONS on the phone's connection.
extension ProxyEngine {
    /// Sends an OPTIONS on the flow of a phone that a call waits for. Any response is a sign of life and releases the call
    /// (``noteLife(on:by:now:)``). A phone that sleeps with an open connection sends no response, and the call stays held.
    ///
    /// While an OPTIONS has no response, later calls send no other.
    func ask(_ target: ForkTarget, now: Moment) {
        guard mayAsk(target), !isAsked(by: target.flow), let listener = identity.listener(for: target.flow),
            let domain = registrar.bindings.binding(target.binding)?.aor.host,
            ask(.phone, at: target.requestURI, as: domain, on: target.flow, by: listener, now: now)
        else { return }
        counters.count(.phoneAsked)
    }

    /// Whether the flow may get an OPTIONS. Flows of trusted peers and edges carry many phones and get none.
    private func mayAsk(_ target: ForkTarget) -> Bool {
        guard target.flow.isConnection || !target.flow.transport.isReliable && settings.call.asksDatagrams else {
            return false
        }
        return settings.call.asksConnections && isWatched(target)
    }
}
