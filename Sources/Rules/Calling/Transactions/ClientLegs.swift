package import Addressing
package import Bytes
package import Collections
package import Registration
package import Routing
package import SIPGrammar
package import SIPTransactions
package import UpstreamRegistration

/// The owner of each client transaction: the part of the proxy that sent the request and handles the responses.
package struct ClientLegs: ~Copyable {
    package enum Owner {
        /// A branch of a forked request; the branch's request was sent to a next hop.
        case branch(BranchLeg)
        /// An INVITE to a phone after the end of the call.
        case farewell(Farewell)
        /// An INVITE that a phone answered after the caller had cancelled.
        case answered(AnsweredINVITE)
        /// An OPTIONS that the daemon itself sends.
        case question(Question)
        /// A REGISTER by which the daemon registers a user at a PBX.
        case registration(RegisterNumber)
    }

    private var owners = TransactionNotes<ClientTransactionID, Owner>()

    package subscript(client: ClientTransactionID) -> Owner? { owners[client] }

    /// The fork branch of the transaction; `nil` if the transaction has ended or belongs to no branch.
    package func branch(_ client: ClientTransactionID) -> BranchLeg? {
        guard case .branch(let leg)? = owners[client] else { return nil }
        return leg
    }

    package mutating func start(_ client: ClientTransactionID, _ leg: BranchLeg) { owners[client] = .branch(leg) }

    /// Removes and returns the fork branch of a transaction whose responses the branch no longer needs.
    @discardableResult
    package mutating func end(_ client: ClientTransactionID) -> BranchLeg? {
        guard case .branch(let leg)? = owners.take(client) else { return nil }
        return leg
    }

    /// Notes a provisional response in the transaction of a fork branch.
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

    /// Removes and returns the daemon's own OPTIONS of a transaction; `nil` for a transaction of another kind.
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

    /// Removes and returns the transaction's INVITE that was sent after the end of a call; `nil` for a transaction of
    /// another kind.
    package mutating func endFarewell(_ client: ClientTransactionID) -> Farewell? {
        guard case .farewell(let farewell)? = owners[client] else { return nil }
        owners[client] = nil
        return farewell
    }
}

/// The request of a fork branch that is in progress at a next hop.
package struct BranchLeg {
    package let call: ProxiedRequest
    package let branch: Int
    /// The device that gets the request; `nil` if the next hop is no phone.
    @PackedOptional package private(set) var device: DeviceID?
    /// Further addresses of the next hop, to try if the first address does not respond; `nil` if no further address is
    /// known.
    package private(set) var detour: Detour?
    /// Whether a provisional response has shown that the next hop has the request, even if the connection ends now.
    package fileprivate(set) var hasArrived = false
    /// Whether a provisional response above 100 has shown that the next hop is working on the request.
    package fileprivate(set) var hasRung = false

    package init(_ call: ProxiedRequest, branch: Int, device: DeviceID? = nil, detour: Detour?) {
        self.call = call
        self.branch = branch
        self.device = device
        self.detour = detour
    }

    /// Removes the addresses of the present server from the further tries, because this server does not respond.
    package mutating func turnsToOtherServers() { detour = detour?.toOthers(than: call.fork.branches[branch].flow) }

    /// Whether the branch has a newer transaction, so that the given transaction accepts only a 2xx.
    package func isFormer(_ client: ClientTransactionID) -> Bool { call.fork.branches[branch].former.contains(client) }

    /// Further addresses of one next hop (RFC 3263 section 4.3). ``Detour`` is a class to save memory, because most
    /// next hops have only one address.
    package final class Detour {
        package let hops: [ResolvedHop]
        /// The changes that the proxy makes to the request before it sends the request.
        package let edits: RequestEdits
        package let device: DeviceID?

        package init(_ hops: [ResolvedHop], _ edits: RequestEdits, device: DeviceID?) {
            self.hops = hops
            self.edits = edits
            self.device = device
        }

        /// The addresses of all servers except the flow's server; `nil` if no such address is known, or if the next hop
        /// is a phone.
        package func toOthers(than flow: Flow?) -> Detour? {
            guard device == nil, let flow else { return nil }
            let others = hops.filter { !$0.isSameServer(as: flow) }
            return others.isEmpty ? nil : Detour(others, edits, device: nil)
        }
    }
}

/// An INVITE and its CANCEL for a phone that registers after the end of the call. The phone's list of missed calls may
/// wait for the phone's response to the INVITE.
package final class Farewell {
    package let userCall: UserCall
    /// Whether a response of the phone removes the call from the phone's list of missed calls.
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

/// An INVITE that a phone answered after the caller had left. Each repeated 2xx needs another ACK (RFC 3261 section
/// 13.2.2.4).
package final class AnsweredINVITE {
    package let invite: IncomingRequest
    package let callee: AddressOfRecord
    package let flow: Flow
    package let listener: Listener
    private var tags: Set<ByteString> = []

    /// The maximum number of dialogs that get a BYE after one INVITE. In practice, far fewer phones answer one INVITE.
    private static let mostDialogs = 16

    package init(_ invite: IncomingRequest, to callee: AddressOfRecord, on flow: Flow, from listener: Listener) {
        (self.invite, self.callee, self.flow, self.listener) = (invite, callee, flow, listener)
    }

    /// Notes the To tag of a 2xx, and returns true if the tag is new and so begins a dialog.
    package func isNew(_ tag: ByteString) -> Bool {
        tags.count < Self.mostDialogs && tags.insert(tag.compacted()).inserted
    }
}
