package import Addressing
package import Bytes
package import Registration
package import Routing
package import SIPGrammar
package import SIPTransactions
package import UpstreamRegistration

/// The owners of the proxy's client transactions: for each transaction, what its responses are for.
package struct ClientLegs: ~Copyable {
    package enum Owner {
        /// A request of a branch to a next hop.
        case branch(BranchLeg)
        /// An INVITE that a phone gets after the end of its call.
        case farewell(Farewell)
        /// An INVITE that was answered after the caller's end.
        case answered(AnsweredINVITE)
        /// An OPTIONS that this proxy sends itself.
        case question(Question)
        /// A REGISTER by which the daemon registers a user at a PBX.
        case registration(RegisterNumber)
    }

    private var owners = TransactionNotes<ClientTransactionID, Owner>()

    package subscript(client: ClientTransactionID) -> Owner? { owners[client] }

    /// The branch that the transaction serves, if any. For a call that was already removed, the result is `nil`.
    package func branch(_ client: ClientTransactionID) -> BranchLeg? {
        guard case .branch(let leg)? = owners[client] else { return nil }
        return leg
    }

    package mutating func start(_ client: ClientTransactionID, _ leg: BranchLeg) { owners[client] = .branch(leg) }

    /// Removes a transaction of a branch: it is over, or its response is not needed any more.
    ///
    /// - Returns: the branch that the transaction served.
    @discardableResult
    package mutating func end(_ client: ClientTransactionID) -> BranchLeg? {
        guard case .branch(let leg)? = owners.take(client) else { return nil }
        return leg
    }

    /// Notes that a provisional response has arrived in the transaction.
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

    /// Removes a transaction of an OPTIONS that this proxy sent.
    ///
    /// - Returns: the question; `nil` if the transaction serves none, or the question has ended before.
    package mutating func endQuestion(_ client: ClientTransactionID) -> Question? {
        guard let question = question(client) else { return nil }
        owners[client] = nil
        return question
    }

    // MARK: Registrations

    package mutating func start(_ client: ClientTransactionID, _ number: RegisterNumber) {
        owners[client] = .registration(number)
    }

    // MARK: Answers that nobody takes

    package mutating func start(_ client: ClientTransactionID, _ answered: AnsweredINVITE) {
        owners[client] = .answered(answered)
    }

    // MARK: Farewells

    package mutating func start(_ client: ClientTransactionID, _ farewell: Farewell) {
        owners[client] = .farewell(farewell)
    }

    /// Removes a transaction of an INVITE that was sent after the end of its call.
    ///
    /// - Returns: the farewell; `nil` if the transaction serves none, or the farewell has ended before.
    package mutating func endFarewell(_ client: ClientTransactionID) -> Farewell? {
        guard case .farewell(let farewell)? = owners[client] else { return nil }
        owners[client] = nil
        return farewell
    }
}

/// A request in progress to a next hop, for a branch of a call.
package struct BranchLeg {
    package let call: ProxiedRequest
    package let branch: Int
    /// Further addresses to try when this hop does not respond; `nil` if none is known.
    package private(set) var detour: Detour?
    /// Whether a provisional response has come. The next hop then has the request, even if the connection ends now.
    package fileprivate(set) var hasArrived = false
    /// Whether a provisional response above 100 has come: the next hop is working on the request.
    package fileprivate(set) var hasRung = false

    package init(_ call: ProxiedRequest, branch: Int, detour: Detour?) {
        self.call = call
        self.branch = branch
        self.detour = detour
    }

    /// Leaves only the addresses of other servers to try, because this server does not respond.
    package mutating func turnsToOtherServers() { detour = detour?.toOthers(than: call.fork.branches[branch].flow) }

    /// Whether the branch has a newer transaction, so that only a 2xx of this transaction still counts.
    package func isFormer(_ client: ClientTransactionID) -> Bool { call.fork.branches[branch].former.contains(client) }

    /// Further addresses of one next hop (RFC 3263 section 4.3). The type is a class to save memory, since most hops
    /// have only one address.
    package final class Detour {
        package let hops: [ResolvedHop]
        /// The changes to the request before it is sent.
        package let edits: RequestEdits
        package let device: DeviceID?

        package init(_ hops: [ResolvedHop], _ edits: RequestEdits, device: DeviceID?) {
            self.hops = hops
            self.edits = edits
            self.device = device
        }

        /// The addresses of servers other than the one at the end of the flow; `nil` if none is known. For a phone
        /// there are none, because all its addresses lead to the same phone.
        package func toOthers(than flow: Flow?) -> Detour? {
            guard device == nil, let flow else { return nil }
            let others = hops.filter { !$0.isSameServer(as: flow) }
            return others.isEmpty ? nil : Detour(others, edits, device: nil)
        }
    }
}

/// An INVITE, followed by its CANCEL, that a phone gets after the end of its call. The phone's list of missed calls may
/// wait for the response.
package final class Farewell {
    package let userCall: UserCall
    /// Whether the phone's response removes the call from the phone's list of missed calls.
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

/// An INVITE whose 2xx came after the caller's end. Each repeated 2xx needs another ACK (RFC 3261 section 13.2.2.4).
package final class AnsweredINVITE {
    package let invite: IncomingRequest
    package let callee: AddressOfRecord
    package let flow: Flow
    package let listener: Listener
    private var tags: Set<ByteString> = []

    /// The maximum number of dialogs of one INVITE that get a BYE, far above the number of phones that answer one
    /// INVITE.
    private static let mostDialogs = 16

    package init(_ invite: IncomingRequest, to callee: AddressOfRecord, on flow: Flow, from listener: Listener) {
        (self.invite, self.callee, self.flow, self.listener) = (invite, callee, flow, listener)
    }

    /// Notes the To tag of a 2xx. Returns true if the tag is new, because each tag makes a dialog.
    package func isNew(_ tag: ByteString) -> Bool {
        tags.count < Self.mostDialogs && tags.insert(tag.compacted()).inserted
    }
}
