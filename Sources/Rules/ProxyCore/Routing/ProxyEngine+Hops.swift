import Addressing
import Bytes
package import Registration
import SIPGrammar
import Telemetry

/// The way to a registered device.
enum DeviceHop {
    /// The flow that it registered on. The other hop is tried when the flow turns out to be gone.
    case flow(Flow, otherwise: ResolvedHop?)
    /// A new connection.
    case connection(ResolvedHop)
    /// Along the Path of its registration (RFC 3327).
    case path(NextHop)
    /// Its connection is gone: a push wakes it.
    case asleep
    case unreachable

    var isReachable: Bool { if case .unreachable = self { false } else { true } }
}

/// Where a request may go (rules T9.1 to T9.4): a Contact is a name and not an order.
extension ProxyEngine {
    func hop(to target: ForkTarget) -> DeviceHop {
        let isOfTrusted = isTrusted(target.flow)
        if isOfTrusted, let uri = target.pathURI {
            guard let hop = NextHop(uri) else { return .unreachable }
            if let (transport, endpoint) = hop.numeric, identity.isOurs(transport, endpoint) { return .unreachable }
            return .path(hop)
        }
        guard !target.isSecure || target.flow.transport.isSecure else { return .unreachable }
        guard target.isReachable, !identity.isOurs(target.flow.transport, target.flow.remote) else {
            return target.canBeWoken ? .asleep : .unreachable
        }
        guard target.flow.transport.isReliable else { return .flow(target.flow, otherwise: nil) }
        let otherwise = target.canBeWoken ? nil : returnHop(to: target, isOfTrusted: isOfTrusted)
        if target.flow.isConnection { return .flow(target.flow, otherwise: otherwise) }
        if let otherwise { return .connection(otherwise) }
        return target.canBeWoken ? .asleep : .unreachable
    }

    /// Requests can be sent to it now.
    func isAwake(_ target: ForkTarget) -> Bool {
        switch hop(to: target) {
        case .flow, .connection, .path: true
        case .asleep, .unreachable: false
        }
    }

    /// What is known of a device that may sleep.
    package enum DeviceState: String, Sendable {
        case awake, asleep
        /// It registered over UDP, where nothing tells whether it still listens.
        case unknown
    }

    package func state(of target: ForkTarget) -> DeviceState {
        guard target.isFresh, isAwake(target) else { return .asleep }
        return target.flow.transport.isReliable || !target.canBeWoken ? .awake : .unknown
    }

    /// Where a phone without pushes is called back when its TCP connection is gone: at the port of its Contact, but at the
    /// address it registered from. A phone has no certificate to show, so that nobody calls it back by TLS. Never where that is one of us, or a trusted peer it shares its address with.
    private func returnHop(to target: ForkTarget, isOfTrusted: Bool) -> ResolvedHop? {
        let endpoint = Endpoint(target.flow.remote.address, target.port)
        guard target.port != 0, target.flow.transport == .tcp, !identity.isOurs(target.flow.transport, endpoint),
            isOfTrusted || !isTrusted(endpoint)
        else { return nil }
        return ResolvedHop(transport: target.flow.transport, endpoint: endpoint)
    }

    /// What is left of a hop's addresses when those that lead back to us are gone; says so once, since the settings or
    /// the names they hold are wrong then.
    func withoutOurs(_ hops: [ResolvedHop]) -> [ResolvedHop] {
        guard hops.contains(where: { identity.isOurs($0.transport, $0.endpoint) }) else { return hops }
        if !upstreamWatch.hasToldOfOwnHop {
            upstreamWatch.hasToldOfOwnHop = true
            log.error(
                "a next hop is this daemon itself: look at upstream, and at the edges' Path and Route",
                [.target: .text(hops.map { "\($0.transport.parameterName):\($0.endpoint)" }.joined(separator: " "))])
        }
        return hops.filter { !identity.isOurs($0.transport, $0.endpoint) }
    }
}

// MARK: Max-Breadth

/// How many requests may be under way at once for one (RFC 5393 section 5).
enum Breadth {
    /// What a request may have that says nothing of its breadth, and the most that any may have.
    static let most: UInt32 = 60

    static func allowed(to request: SIPRequest, targets: Int) -> UInt32 {
        guard let value = request.frame.firstValue(of: .maxBreadth) else {
            // A user with more contacts than that is called at all of them.
            return max(most, UInt32(clamping: targets))
        }
        return min(value.decimal(as: UInt32.self) ?? most, most)
    }

    /// What each of the targets may have; 0 when they are too many.
    static func share(of request: SIPRequest, among targets: Int) -> UInt32 {
        let allowed = allowed(to: request, targets: targets)
        return targets > 0 ? allowed / UInt32(clamping: targets) : allowed
    }
}
