package import Addressing
import Collections

/// The places that the answer to one request may come from (T9.20): where the request went, and where its peer is since.
///
/// The branch in the Via of a response proves nothing, because everybody on the way of the request knows it.
package struct ClientPlaces: Sendable {
    /// Who answers from some other place, as far as the core knows.
    package enum Sender: Hashable, Sendable {
        case unknown
        /// A phone that the called user has registered there.
        case callee
        case peer(Peer)
    }

    /// A trusted peer.
    package struct Peer: Hashable, Sendable {
        /// Phones have the other ports of its address.
        let hasOnePort: Bool
        /// The server that only a certificate proves, whatever its address is.
        let certified: ServerNumber
        /// Whether the peer has shown that certificate.
        let isCertified: Bool

        package init(hasOnePort: Bool, certified: ServerNumber = .none, isCertified: Bool = false) {
            self.hasOnePort = hasOnePort
            self.certified = certified
            self.isCertified = isCertified
        }
    }

    private struct Others: Sendable {
        /// Where the request went, when its peer is reached elsewhere now.
        var first: Flow?
        /// Where the same phone was called later, by another request.
        var later: Flow?
    }

    // First, so that what is small can stand behind the flow in a record.
    private var others = Rare<Others>()
    /// Where the request went, or its peer is reached now: what is still sent goes there.
    package private(set) var present: Flow
    /// Its connection has ended, and its peer has not said the last word.
    package private(set) var wasLost = false

    package init(sentOn flow: Flow) { present = flow }

    /// The peer is reached by another flow now.
    package mutating func moved(to flow: Flow) {
        let old = wasLost ? present.closed : present
        others.change(orNew: Others()) { if $0.first == nil { $0.first = old } }
        present = flow
    }

    /// The connection of the request has ended. The peer may answer by its next connection from the same place.
    package mutating func connectionEnded() { wasLost = true }

    /// The phone is called by another flow. It may answer there what it got before.
    package mutating func calledAnew(by flow: Flow) { others.change(orNew: Others()) { $0.later = flow } }

    /// Whether a response counts that comes by this flow.
    ///
    /// - Parameters:
    ///   - flow: the flow that the response came by.
    ///   - sender: asked only when the flow leads to none of the places.
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
        // Over UDP both are 0. A request without a connection of its own may be answered on any to that place; over TLS, on one
        // whose peer has the certificate. The same is true after the connection has ended.
        return flow.connection == place.connection
            || (isAnyConnection || place.connection == 0 || place.isClosed) && flow.server == place.server
    }

    /// A PBX may answer from another port of its address, and by a connection that it has opened (RFC 3261 section 18.2.2).
    private func speaks(_ peer: Peer, from flow: Flow) -> Bool {
        if present.transport.isSecure {
            guard flow.transport.isSecure else { return false }
            if present.server != .none, present.server == peer.certified { return peer.isCertified }
        }
        return present.remote.speaks(as: flow.remote, hasOnePort: peer.hasOnePort)
    }
}
