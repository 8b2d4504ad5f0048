package import Addressing
import Collections

/// The places from which the answer to one request may come (T9.20): the destination of the request, and the current
/// flows of its peer.
///
/// The branch in a response's Via proves nothing, because every hop of the request knows it.
package struct ClientPlaces: Sendable {
    /// The sender of a response from another place, as far as the core knows.
    package enum Sender: Hashable, Sendable {
        case unknown
        /// A phone of the called user, which is registered from that place.
        case callee
        case peer(Peer)
    }

    /// A trusted peer.
    package struct Peer: Hashable, Sendable {
        /// Whether only one port of the peer's address is trusted, because phones use the other ports.
        let hasOnePort: Bool
        /// The server number of the upstream, which is recognised by its certificate at any address.
        let certified: ServerNumber
        /// Whether the peer presented the upstream's certificate.
        let isCertified: Bool

        package init(hasOnePort: Bool, certified: ServerNumber = .none, isCertified: Bool = false) {
            self.hasOnePort = hasOnePort
            self.certified = certified
            self.isCertified = isCertified
        }
    }

    private struct Others: Sendable {
        /// The destination of the request, if the peer is now reached by another flow.
        var first: Flow?
        /// The flow on which the same phone later got another request.
        var later: Flow?
    }

    // This member comes first, so that small members can follow `present` in a record without padding.
    private var others = BoxedOptional<Others>()
    /// The destination of further messages: the flow of the request, or the peer's current flow.
    package private(set) var present: Flow
    /// Whether the connection of `present` was closed before the peer sent the final response.
    package private(set) var wasLost = false

    package init(sentOn flow: Flow) { present = flow }

    /// The peer is now reached by another flow.
    package mutating func moved(to flow: Flow) {
        let old = wasLost ? present.closed : present
        others.change(orNew: Others()) { if $0.first == nil { $0.first = old } }
        present = flow
    }

    /// The connection of the request was closed. The peer may answer on its next connection from the same place.
    package mutating func connectionEnded() { wasLost = true }

    /// The phone gets another request on another flow, and may answer the earlier request there.
    package mutating func calledAnew(by flow: Flow) { others.change(orNew: Others()) { $0.later = flow } }

    /// Whether a response on this flow is accepted.
    ///
    /// - Parameters:
    ///   - flow: the flow of the response.
    ///   - sender: evaluated only if the flow leads to none of the places.
    /// - Returns: whether the response is accepted.
    package func accepts(responseFrom flow: Flow, by sender: @autoclosure () -> Sender) -> Bool {
        if includes(flow) { return true }
        switch sender() {
        case .unknown: return false
        case .callee: return true
        case .peer(let peer): return speaks(peer, from: flow)
        }
    }

    /// Whether the flow leads to one of the places.
    func includes(_ flow: Flow) -> Bool {
        if Self.leads(flow, to: present, isAnyConnection: wasLost) { return true }
        guard let others = others.value else { return false }
        return others.first.map { Self.leads(flow, to: $0) } ?? false
            || others.later.map { Self.leads(flow, to: $0) } ?? false
    }

    private static func leads(_ flow: Flow, to place: Flow, isAnyConnection: Bool = false) -> Bool {
        guard flow.remote == place.remote, flow.transport == place.transport else { return false }
        // Over UDP both connection numbers are 0. A request without a connection of its own may be answered on any
        // connection to that place. Over TLS the peer of that connection must have the certificate. The same applies
        // after the connection was closed.
        return flow.connection == place.connection
            || (isAnyConnection || place.connection == 0 || place.isClosed) && flow.server == place.server
    }

    /// Whether a trusted peer may answer from this flow. A PBX may answer from another port of its address, and on a
    /// connection that it opened (RFC 3261 section 18.2.2).
    private func speaks(_ peer: Peer, from flow: Flow) -> Bool {
        if present.transport.isSecure {
            guard flow.transport.isSecure else { return false }
            if present.server != .none, present.server == peer.certified { return peer.isCertified }
        }
        return present.remote.speaks(as: flow.remote, hasOnePort: peer.hasOnePort)
    }
}
