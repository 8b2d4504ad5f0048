package import Addressing
package import Routing
package import SIPGrammar
package import SIPTransactions

/// The core's client transactions with their owners: a branch of a fork, a farewell to a phone, or a question of our
/// own.
package struct ClientLegs: ~Copyable {
    package enum Owner {
        /// A request of a branch to a next hop.
        case branch(BranchLeg)
        /// An INVITE to a phone after the end of its call.
        case farewell(Farewell)
        /// An OPTIONS of our own.
        case question(Question)
    }

    private var owners = TransactionNotes<ClientTransactionID, Owner>()

    package subscript(client: ClientTransactionID) -> Owner? { owners[client] }

    /// The leg, if the transaction serves a branch. The call may be forgotten already and ignore events.
    package func branch(_ client: ClientTransactionID) -> BranchLeg? {
        guard case .branch(let leg)? = owners[client] else { return nil }
        return leg
    }

    package mutating func start(_ client: ClientTransactionID, _ leg: BranchLeg) { owners[client] = .branch(leg) }

    /// The transaction is over, or its response is of no interest any more.
    ///
    /// - Returns: the branch that the transaction served.
    @discardableResult
    package mutating func end(_ client: ClientTransactionID) -> BranchLeg? {
        guard case .branch(let leg)? = owners.take(client) else { return nil }
        return leg
    }

    /// A provisional response came.
    package mutating func arrived(_ client: ClientTransactionID, isRinging: Bool = false) {
        guard case .branch(var leg)? = owners[client] else { return }
        leg.hasArrived = true
        if isRinging { leg.hasRung = true }
        owners[client] = .branch(leg)
    }

    // MARK: Questions

    package mutating func start(_ client: ClientTransactionID, _ question: Question) {
        owners[client] = .question(question)
    }

    package func question(_ client: ClientTransactionID) -> Question? {
        guard case .question(let question)? = owners[client] else { return nil }
        return question
    }

    /// - Returns: the question; `nil` if the transaction serves none, or the question has ended before.
    package mutating func endQuestion(_ client: ClientTransactionID) -> Question? {
        guard let question = question(client) else { return nil }
        owners[client] = nil
        return question
    }

    // MARK: Farewells

    package mutating func start(_ client: ClientTransactionID, _ farewell: Farewell) {
        owners[client] = .farewell(farewell)
    }

    /// - Returns: the farewell; `nil` if the transaction serves none, or the farewell has ended before.
    package mutating func endFarewell(_ client: ClientTransactionID) -> Farewell? {
        guard case .farewell(let farewell)? = owners[client] else { return nil }
        owners[client] = nil
        return farewell
    }
}

/// One request in progress to a next hop, for a branch of a call.
package struct BranchLeg {
    package let call: ProxiedRequest
    package let branch: Int
    /// Other addresses to try when this hop does not respond; `nil` if no other is known.
    package private(set) var detour: Detour?
    /// A provisional response came, so the next hop has the request, even if the connection ends now.
    package fileprivate(set) var hasArrived = false
    /// A provisional response of more than 100 came: the next hop is working on the request.
    package fileprivate(set) var hasRung = false

    package init(_ call: ProxiedRequest, branch: Int, detour: Detour?) {
        self.call = call
        self.branch = branch
        self.detour = detour
    }

    /// The server does not respond: only other servers are tried from now on.
    package mutating func turnsToOtherServers() { detour = detour?.toOthers(than: call.fork.branches[branch].flow) }

    /// Whether the branch has a newer transaction, so that only a 2xx of this one still counts.
    package func isFormer(_ client: ClientTransactionID) -> Bool { call.fork.branches[branch].former.contains(client) }

    /// Further addresses of the same next hop (RFC 3263 section 4.3). A detour is a class to save memory, since most
    /// hops have only one address.
    package final class Detour {
        package let hops: [ResolvedHop]
        /// How the request is changed before it is sent.
        package let edits: RequestEdits
        package let device: DeviceID?

        package init(_ hops: [ResolvedHop], _ edits: RequestEdits, device: DeviceID?) {
            self.hops = hops
            self.edits = edits
            self.device = device
        }

        /// The addresses of servers other than the server at the end of that flow; `nil` if no other is known. A phone
        /// has no detour: all its addresses lead to the same phone.
        package func toOthers(than flow: Flow?) -> Detour? {
            guard device == nil, let flow else { return nil }
            let others = hops.filter { !$0.isSameServer(as: flow) }
            return others.isEmpty ? nil : Detour(others, edits, device: nil)
        }
    }
}

/// An INVITE and its CANCEL that a phone gets after the end of its call. Only the phone's list of missed calls may wait
/// for a response.
package final class Farewell {
    package let userCall: UserCall
    /// Whether a response of the phone removes the call from its list of missed calls.
    package let isQuestion: Bool
    package let device: DeviceID
    package let flow: Flow
    package let listener: Listener
    package let invite: IncomingRequest

    package init(
        _ userCall: UserCall, isQuestion: Bool, to device: DeviceID, on flow: Flow, from listener: Listener,
        _ invite: IncomingRequest
    ) {
        self.userCall = userCall
        self.isQuestion = isQuestion
        self.device = device
        self.flow = flow
        self.listener = listener
        self.invite = invite
    }
}
