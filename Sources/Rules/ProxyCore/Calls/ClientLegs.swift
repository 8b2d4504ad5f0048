import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions

/// The core's client transactions with their owners: a branch of a fork, a farewell to a phone, an answer that nobody
/// takes, or a question of our own.
struct ClientLegs: ~Copyable {
    enum Owner {
        /// A request of a branch to a next hop.
        case branch(BranchLeg)
        /// An INVITE to a phone after the end of its call.
        case farewell(Farewell)
        /// An INVITE that was answered when no caller was left.
        case answered(AnsweredINVITE)
        /// An OPTIONS of our own.
        case question(Question)
    }

    private var owners = TransactionNotes<ClientTransactionID, Owner>()

    subscript(client: ClientTransactionID) -> Owner? { owners[client] }

    /// The leg, if the transaction serves a branch. The call may be forgotten already and ignore events.
    func branch(_ client: ClientTransactionID) -> BranchLeg? {
        guard case .branch(let leg)? = owners[client] else { return nil }
        return leg
    }

    mutating func start(_ client: ClientTransactionID, _ leg: BranchLeg) { owners[client] = .branch(leg) }

    /// The transaction is over, or its response is of no interest any more.
    ///
    /// - Returns: the branch that the transaction served.
    @discardableResult
    mutating func end(_ client: ClientTransactionID) -> BranchLeg? {
        guard case .branch(let leg)? = owners.take(client) else { return nil }
        return leg
    }

    /// A provisional response came.
    mutating func arrived(_ client: ClientTransactionID, isRinging: Bool = false) {
        guard case .branch(var leg)? = owners[client] else { return }
        leg.hasArrived = true
        if isRinging { leg.hasRung = true }
        owners[client] = .branch(leg)
    }

    // MARK: Questions

    mutating func start(_ client: ClientTransactionID, _ question: Question) { owners[client] = .question(question) }

    func question(_ client: ClientTransactionID) -> Question? {
        guard case .question(let question)? = owners[client] else { return nil }
        return question
    }

    /// - Returns: the question; `nil` if the transaction serves none, or the question has ended before.
    mutating func endQuestion(_ client: ClientTransactionID) -> Question? {
        guard let question = question(client) else { return nil }
        owners[client] = nil
        return question
    }

    // MARK: Answers that nobody takes

    mutating func start(_ client: ClientTransactionID, _ answered: AnsweredINVITE) {
        owners[client] = .answered(answered)
    }

    // MARK: Farewells

    mutating func start(_ client: ClientTransactionID, _ farewell: Farewell) { owners[client] = .farewell(farewell) }

    /// - Returns: the farewell; `nil` if the transaction serves none, or the farewell has ended before.
    mutating func endFarewell(_ client: ClientTransactionID) -> Farewell? {
        guard case .farewell(let farewell)? = owners[client] else { return nil }
        owners[client] = nil
        return farewell
    }
}

/// One request in progress to a next hop, for a branch of a call.
struct BranchLeg {
    let call: ProxiedRequest
    let branch: Int
    /// Other addresses to try when this hop does not respond; `nil` if no other is known.
    var detour: Detour?
    /// A provisional response came, so the next hop has the request, even if the connection ends now.
    var hasArrived = false
    /// A provisional response of more than 100 came: the next hop is working on the request.
    var hasRung = false

    /// Whether the branch has a newer transaction, so that only a 2xx of this one still counts.
    func isFormer(_ client: ClientTransactionID) -> Bool { call.fork.branches[branch].former.contains(client) }

    /// Further addresses of the same next hop (RFC 3263 section 4.3). A detour is a class to save memory, since most
    /// hops have only one address.
    final class Detour {
        let hops: [ResolvedHop]
        /// How the request is changed before it is sent.
        let edits: RequestEdits
        let device: DeviceID?

        init(_ hops: [ResolvedHop], _ edits: RequestEdits, device: DeviceID?) {
            self.hops = hops
            self.edits = edits
            self.device = device
        }

        /// The addresses of servers other than the server at the end of that flow; `nil` if no other is known. A phone
        /// has no detour: all its addresses lead to the same phone.
        func toOthers(than flow: Flow?) -> Detour? {
            guard device == nil, let flow else { return nil }
            let others = hops.filter { !$0.isSameServer(as: flow) }
            return others.isEmpty ? nil : Detour(others, edits, device: nil)
        }
    }
}

/// An INVITE and its CANCEL that a phone gets after the end of its call. Only the phone's list of missed calls may wait
/// for a response.
final class Farewell {
    let userCall: UserCall
    /// Whether a response of the phone removes the call from its list of missed calls.
    let isQuestion: Bool
    let device: DeviceID
    let flow: Flow
    let listener: Listener
    let invite: IncomingRequest

    init(
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

/// An INVITE with a 2xx and without a caller. Each repeated 2xx needs another ACK (RFC 3261 section 13.2.2.4).
final class AnsweredINVITE {
    let invite: IncomingRequest
    let callee: AddressOfRecord
    let flow: Flow
    let listener: Listener
    private var tags: Set<ByteString> = []

    /// More dialogs of one INVITE get no BYE. The limit is far above the number of phones that answer one INVITE.
    private static let mostDialogs = 16

    init(_ invite: IncomingRequest, to callee: AddressOfRecord, on flow: Flow, from listener: Listener) {
        (self.invite, self.callee, self.flow, self.listener) = (invite, callee, flow, listener)
    }

    /// Whether no 2xx with this To tag came before. Each tag makes a dialog.
    func isNew(_ tag: ByteString) -> Bool {
        tags.count < Self.mostDialogs && tags.insert(tag.compacted()).inserted
    }
}
