import Addressing
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Callers of an earlier run that come back: their calls get their responses by the connections that they make now.
extension ProxyEngine {
    /// Callers are waited for as long as calls last.
    func armAwayCallers(now: Moment) {
        guard !calls.away.isEmpty else { return }
        let end = now.instant + settings.call.ringTimeout + settings.call.ringLimit
        _ = timers.schedule(.awayCallersDue, at: end)
    }

    /// A trusted peer has made a connection: the responses of its calls go there.
    func peerReturned(_ incoming: IncomingRequest) {
        guard incoming.isTrusted else { return }
        for call in calls.away.take(of: incoming.flow.remote.address) { callerReturned(call, on: incoming.flow) }
    }

    /// A trusted peer that has called over TLS takes connections where its Via says (RFC 3261 section 18.2.2, RFC 3263 section
    /// 5), with a certificate for the name that stands there.
    func lookUpCaller(of call: Call, _ incoming: IncomingRequest) {
        guard incoming.flow.transport == .tls, incoming.isTrusted else { return }
        let via = incoming.request.via
        lookUp(NextHop(host: via.host, port: via.port, transport: .tls, isSecure: false), for: .caller(call))
    }

    /// Responses to a caller who has not come back open a connection there.
    func callerFound(_ call: Call, at hops: [ResolvedHop]) {
        let origin = call.source.remote.address
        guard calls.away.isAway(call), let server = call.server,
            let hop = hops.first(where: { hop in
                hop.transport == .tls && (hop.endpoint.address == origin || isTrusted(hop.endpoint))
                    && !identity.isOurs(.tls, hop.endpoint)
            }),
            let listener = identity.listener(for: .tls, to: hop.endpoint.address, preferring: call.source.listener)
        else { return }
        let flow = Flow(
            transport: .tls, listener: listener.number, connection: 0, remote: hop.endpoint, server: hop.server)
        withTransactions { $0.move(server, to: flow, into: &$1) }
    }

    /// A phone has registered: so do those of the calls that it has made.
    func phoneReturned(_ device: DeviceID, now: Moment) {
        let calls = calls.away.take(of: device)
        guard !calls.isEmpty, let target = registrar.bindings.forkTarget(device, now: now.instant) else { return }
        for call in calls { callerReturned(call, on: target.flow) }
    }

    /// The caller is reached by this connection, if the one of its INVITE has ended with an earlier run.
    func callerReturned(_ call: Call, on flow: Flow) {
        guard call.source.isClosed, flow.isConnection, let server = call.server else { return }
        withTransactions { $0.move(server, to: flow, into: &$1) }
    }
}
