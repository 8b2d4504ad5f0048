package import Addressing
import Collections

/// The flows from which a response to one request is accepted (T9.20): the request's flow, and the peer's later flows.
///
/// The branch in a response's Via does not prove the sender, because every hop of the request knows the branch.
package struct ClientPlaces: Sendable {
    /// The sender of a response on an unexpected flow, as far as the engine knows the sender.
    package enum Sender: Hashable, Sendable {
        case unknown
        /// The sender is a phone of the called user, registered on the response's flow.
        case callee
        case peer(Peer)
    }

    /// A trusted peer that sent a response.
    package struct Peer: Hashable, Sendable {
        /// Whether only one port of the peer's address is trusted, because phones use other ports of the address.
        let hasOnePort: Bool
        /// The number of the upstream's host name; a certificate for the host name identifies the upstream at any
        /// address.
        let certified: ServerNumber
        /// Whether the peer has authenticated by the upstream's certificate.
        let isCertified: Bool

        package init(hasOnePort: Bool, certified: ServerNumber = .none, isCertified: Bool = false) {
            self.hasOnePort = hasOnePort
            self.certified = certified
            self.isCertified = isCertified
        }
    }

    private struct Others: Sendable {
        /// The flow on which the request was first sent; `nil` unless the peer has moved to another flow.
        var first: Flow?
        /// The flow on which the same phone got a later request.
        var later: Flow?
    }

    // The order of the properties avoids padding in memory.
    private var others = BoxedOptional<Others>()
    /// The flow for further messages: the request's flow, or the present flow of a peer that has moved.
    package private(set) var present: Flow
    /// Whether the connection of ``present`` was closed before the final response.
    package private(set) var wasLost = false

    package init(sentOn flow: Flow) { present = flow }

    /// Notes that the request's peer has moved to another flow.
    package mutating func moved(to flow: Flow) {
        let old = wasLost ? present.closed : present
        others.change(orNew: Others()) { if $0.first == nil { $0.first = old } }
        present = flow
    }

    /// Notes that the request's connection was closed; the response may come on the peer's next connection from the
    /// same address.
    package mutating func connectionEnded() { wasLost = true }

    /// Notes that the phone gets a later request on another flow, on which the phone may also answer the earlier
    /// request.
    package mutating func calledAnew(by flow: Flow) { others.change(orNew: Others()) { $0.later = flow } }

    /// Whether a response on the given flow is accepted.
    ///
    /// - Parameters:
    ///   - flow: the flow of the response.
    ///   - sender: the sender of the response, evaluated only for an unexpected flow.
    /// - Returns: whether the response is accepted.
    package func accepts(responseFrom flow: Flow, by sender: @autoclosure () -> Sender) -> Bool {
        if includes(flow) { return true }
        switch sender() {
        case .unknown: return false
        case .callee: return true
        case .peer(let peer): return speaks(peer, from: flow)
        }
    }

    /// Whether a response is expected on the flow.
    func includes(_ flow: Flow) -> Bool {
        if Self.leads(flow, to: present, isAnyConnection: wasLost) { return true }
        guard let others = others.value else { return false }
        return others.first.map { Self.leads(flow, to: $0) } ?? false
            || others.later.map { Self.leads(flow, to: $0) } ?? false
    }

    private static func leads(_ flow: Flow, to place: Flow, isAnyConnection: Bool = false) -> Bool {
        guard flow.remote == place.remote, flow.transport == place.transport else { return false }
        // If the request was sent without a connection, or its connection was closed, a response is accepted on any
        // connection to the same endpoint. Over UDP, both connection numbers are 0 and therefore equal. Over TLS, the
        // certificate of the new flow must also prove the server of the old flow.
        return flow.connection == place.connection
            || (isAnyConnection || place.connection == 0 || place.isClosed) && flow.server == place.server
    }

    /// Whether a response of a trusted peer is accepted on the flow. A PBX can respond from another port of its
    /// address, or on a connection that it has opened (RFC 3261 section 18.2.2).
    private func speaks(_ peer: Peer, from flow: Flow) -> Bool {
        if present.transport.isSecure {
            guard flow.transport.isSecure else { return false }
            if present.server != .none, present.server == peer.certified { return peer.isCertified }
        }
        return present.remote.speaks(as: flow.remote, hasOnePort: peer.hasOnePort)
    }
}
