package import Addressing
import Collections

/// The places from which the answer to one request may come (T9.20): the destination of the request, and the current
/// flows of its peer.
///
/// The branch in a response's Via proves nothing, because every hop of the request knows it.
package struct ClientPlaces: Sendable {
    /// The sender of an answer from another place, as far as the core knows.
    package enum Sender: Hashable, Sendable {
        case unknown
        /// A phone that the called user registered there.
        case callee
        case peer(Peer)
    }

    /// A trusted peer.
    package struct Peer: Hashable, Sendable {
        /// Phones use the other ports of its address.
        let hasOnePort: Bool
        /// The server that is recognised only by its certificate, at any address.
        let certified: ServerNumber
        /// Whether the peer presented that certificate.
        let isCertified: Bool

        package init(hasOnePort: Bool, certified: ServerNumber = .none, isCertified: Bool = false) {
            self.hasOnePort = hasOnePort
            self.certified = certified
            self.isCertified = isCertified
        }
    }

    private struct Others: Sendable {
        /// The destination of the request, if its peer is now reached by another flow.
        var first: Flow?
        /// The flow by which the same phone was later called with another request.
        var later: Flow?
    }

    // The first member, so that small members can follow the flow in a record.
    private var others = Rare<Others>()
    /// The destination of further messages: the request's flow, or the peer's current one.
    package private(set) var present: Flow
    /// Its connection was closed, and its peer has not sent the final response.
    package private(set) var wasLost = false

    package init(sentOn flow: Flow) { present = flow }

    /// The peer is now reached by another flow.
    package mutating func moved(to flow: Flow) {
        let old = wasLost ? present.closed : present
        others.change(orNew: Others()) { if $0.first == nil { $0.first = old } }
        present = flow
    }

    /// The connection of the request was closed. The peer may answer by its next connection from the same place.
    package mutating func connectionEnded() { wasLost = true }

    /// The phone is called by another flow. It may answer the earlier request there.
    package mutating func calledAnew(by flow: Flow) { others.change(orNew: Others()) { $0.later = flow } }

    /// Whether a response by this flow counts.
    ///
    /// - Parameters:
    ///   - flow: the flow of the response.
    ///   - sender: evaluated only if the flow leads to none of the places.
    /// - Returns: whether it counts.
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
        // Over UDP both are 0. A request without its own connection may be answered on any connection to that place;
        // over TLS, on one whose peer has the certificate. The same applies after the connection was closed.
        return flow.connection == place.connection
            || (isAnyConnection || place.connection == 0 || place.isClosed) && flow.server == place.server
    }

    /// A PBX may answer from another port of its address, and by a connection that it opened (RFC 3261 section 18.2.2).
    private func speaks(_ peer: Peer, from flow: Flow) -> Bool {
        if present.transport.isSecure {
            guard flow.transport.isSecure else { return false }
            if present.server != .none, present.server == peer.certified { return peer.isCertified }
        }
        return present.remote.speaks(as: flow.remote, hasOnePort: peer.hasOnePort)
    }
}
