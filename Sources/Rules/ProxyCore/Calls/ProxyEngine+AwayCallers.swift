import Addressing
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Callers of an earlier run that connect again: the responses to their calls go to the new connections.
extension ProxyEngine {
    /// Arms the timer that ends the wait for callers of an earlier run. The wait is as long as a call can last.
    func armAwayCallers(now: Moment) {
        guard !calls.away.isEmpty || wakes.hasCallers else { return }
        let end = now.instant + settings.call.ringTimeout + settings.call.ringLimit
        _ = timers.schedule(.awayCallersDue, at: end)
    }

    /// A trusted peer has opened a connection: the responses to its calls go there.
    func peerReturned(_ incoming: IncomingRequest) {
        guard incoming.isTrusted else { return }
        for call in calls.away.take(of: incoming.flow.remote.address) { callerReturned(call, on: incoming.flow) }
    }

    /// Looks up the Via of a trusted peer that called over TLS (RFC 3261 section 18.2.2, RFC 3263 section 5). Responses
    /// need a new connection to that peer. The peer's certificate has to name the Via's host.
    func lookUpCaller(of call: ProxiedRequest, _ incoming: IncomingRequest) {
        guard incoming.flow.transport == .tls, incoming.isTrusted else { return }
        let via = incoming.request.via
        lookUp(NextHop(host: via.host, port: via.port, transport: .tls, isSecure: false), for: .caller(call))
    }

    /// The look-up of the caller has ended: responses to a caller who has not connected again open a connection to that
    /// address.
    func callerFound(_ call: ProxiedRequest, at hops: [ResolvedHop]) {
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

    /// A phone has registered: the responses to a call that it made go to its new flow.
    func callerReturned(_ call: ProxiedRequest, as device: DeviceID, now: Moment) {
        guard let target = registrar.bindings.forkTarget(device, now: now.instant) else { return }
        callerReturned(call, on: target.flow)
    }

    /// Moves the call's responses to this connection, if the INVITE's connection ended with an earlier run.
    func callerReturned(_ call: ProxiedRequest, on flow: Flow) {
        guard call.source.isClosed, flow.isConnection, let server = call.server else { return }
        withTransactions { $0.move(server, to: flow, into: &$1) }
    }
}
