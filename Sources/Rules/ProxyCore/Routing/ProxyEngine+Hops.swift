import Addressing
import Bytes
package import Registration
import SIPGrammar
import Telemetry

/// The way to a registered device.
enum DeviceHop {
    /// The flow that the device registered on. The other hop is tried if the flow is gone.
    case flow(Flow, otherwise: ResolvedHop?)
    /// A new connection to the device.
    case connection(ResolvedHop)
    /// The Path of the registration (RFC 3327).
    case path(NextHop)
    /// The device's connection is closed, and only a push can wake the device.
    case asleep
    case unreachable

    var isReachable: Bool { if case .unreachable = self { false } else { true } }
}

/// The hops that requests to devices may use (rules T9.1 to T9.4). A Contact only names a device, and does not decide
/// where we send.
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

    /// Whether requests can be sent to the device now, without a push.
    func isAwake(_ target: ForkTarget) -> Bool {
        switch hop(to: target) {
        case .flow, .connection, .path: true
        case .asleep, .unreachable: false
        }
    }

    /// Whether a device that may sleep is awake, for operators.
    package enum DeviceState: String, Sendable {
        case awake, asleep
        /// The device registered over UDP, which does not show whether the device still listens.
        case unknown
    }

    package func state(of target: ForkTarget) -> DeviceState {
        guard target.isFresh, isAwake(target) else { return .asleep }
        return target.flow.transport.isReliable || !target.canBeWoken ? .awake : .unknown
    }

    /// The hop to a phone without pushes whose TCP connection is closed: the phone's source address with the port of
    /// its Contact. TLS is not used, because a phone has no certificate. `nil` if that endpoint is our own, or belongs
    /// to a trusted peer behind the same address.
    private func returnHop(to target: ForkTarget, isOfTrusted: Bool) -> ResolvedHop? {
        let endpoint = Endpoint(target.flow.remote.address, target.port)
        guard target.port != 0, target.flow.transport == .tcp, !identity.isOurs(target.flow.transport, endpoint),
            isOfTrusted || !isTrusted(endpoint)
        else { return nil }
        return ResolvedHop(transport: target.flow.transport, endpoint: endpoint)
    }

    /// Removes the addresses that lead back to this daemon. The first removal is logged as an error, since the settings
    /// or the DNS names are wrong.
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

/// The limit of parallel branches of a request (RFC 5393 section 5).
enum Breadth {
    /// The breadth of a request without Max-Breadth, and the maximum for any request.
    static let most: UInt32 = 60

    static func allowed(to request: SIPRequest, targets: Int) -> UInt32 {
        guard let value = request.frame.firstValue(of: .maxBreadth) else {
            // All contacts of a user are called, even if they exceed the limit.
            return max(most, UInt32(clamping: targets))
        }
        return min(value.decimal(as: UInt32.self) ?? most, most)
    }

    /// The breadth that each target gets. 0 if the request has too many targets.
    static func share(of request: SIPRequest, among targets: Int) -> UInt32 {
        let allowed = allowed(to: request, targets: targets)
        return targets > 0 ? allowed / UInt32(clamping: targets) : allowed
    }
}
