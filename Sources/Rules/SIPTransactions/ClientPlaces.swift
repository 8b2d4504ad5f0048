package import Addressing
import Collections

/// The places from which the response to one request may come (T9.20): the flow of the request, and the present flows
/// of its peer.
///
/// The branch in a response's Via proves nothing, because every hop of the request knows it.
package struct ClientPlaces: Sendable {
    /// The sender of a response that came from none of the places, as far as the core knows.
    package enum Sender: Hashable, Sendable {
        case unknown
        /// A phone of the called user, which has registered on the response's flow.
        case callee
        case peer(Peer)
    }

    /// A trusted peer.
    package struct Peer: Hashable, Sendable {
        /// Whether only one port of the peer's address is trusted, because phones use the other ports.
        let hasOnePort: Bool
        /// Stands for the host name of the upstream, which is recognised by its certificate at any address.
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
        /// The flow of the request, if the peer is now reached on another flow.
        var first: Flow?
        /// The flow on which the same phone later got another request.
        var later: Flow?
    }

    // This member is first, so that small members can follow `present` in a record without padding.
    private var others = BoxedOptional<Others>()
    /// The flow for further messages: the flow of the request, or the peer's present flow.
    package private(set) var present: Flow
    /// Whether the connection of `present` was closed before the peer sent the final response.
    package private(set) var wasLost = false

    package init(sentOn flow: Flow) { present = flow }

    /// Notes that the peer is now reached on another flow.
    package mutating func moved(to flow: Flow) {
        let old = wasLost ? present.closed : present
        others.change(orNew: Others()) { if $0.first == nil { $0.first = old } }
        present = flow
    }

    /// Notes that the connection of the request was closed. The peer may answer on its next connection from the same
    /// address.
    package mutating func connectionEnded() { wasLost = true }

    /// Notes that the phone gets another request on another flow, and may answer the earlier request there.
    package mutating func calledAnew(by flow: Flow) { others.change(orNew: Others()) { $0.later = flow } }

    /// Whether a response that arrived on this flow is accepted.
    ///
    /// - Parameters:
    ///   - flow: the flow of the response.
    ///   - sender: evaluated only if the flow is none of the places.
    /// - Returns: whether the response is accepted.
    package func accepts(responseFrom flow: Flow, by sender: @autoclosure () -> Sender) -> Bool {
        if includes(flow) { return true }
        switch sender() {
        case .unknown: return false
        case .callee: return true
        case .peer(let peer): return speaks(peer, from: flow)
        }
    }

    /// Whether the flow is one of the places.
    func includes(_ flow: Flow) -> Bool {
        if Self.leads(flow, to: present, isAnyConnection: wasLost) { return true }
        guard let others = others.value else { return false }
        return others.first.map { Self.leads(flow, to: $0) } ?? false
            || others.later.map { Self.leads(flow, to: $0) } ?? false
    }

    private static func leads(_ flow: Flow, to place: Flow, isAnyConnection: Bool = false) -> Bool {
        guard flow.remote == place.remote, flow.transport == place.transport else { return false }
        // Over UDP, both connection numbers are 0. If the request has no connection of its own, or its connection was
        // closed, the response may come on any connection to the same endpoint. Over TLS, its peer must have shown the
        // certificate.
        return flow.connection == place.connection
            || (isAnyConnection || place.connection == 0 || place.isClosed) && flow.server == place.server
    }

    /// Whether a trusted peer may answer on this flow. A PBX may answer from another port of its address, or on a
    /// connection that it opened (RFC 3261 section 18.2.2).
    private func speaks(_ peer: Peer, from flow: Flow) -> Bool {
        if present.transport.isSecure {
            guard flow.transport.isSecure else { return false }
            if present.server != .none, present.server == peer.certified { return peer.isCertified }
        }
        return present.remote.speaks(as: flow.remote, hasOnePort: peer.hasOnePort)
    }
}
