import Addressing
import SIPGrammar
import SIPTransactions

/// The core's client transactions, each with what it serves: a branch of a fork, a farewell to a phone, or a question to one.
struct ClientLegs: ~Copyable {
    enum Owner {
        /// A request on its way to a next hop.
        case branch(BranchLeg)
        /// An INVITE to a phone whose call is over.
        case farewell(Farewell)
        /// An OPTIONS of our own.
        case question(Question)
    }

    private var owners = TransactionNotes<ClientTransactionID, Owner>()
    /// Phones whose lists of missed calls wait for their answers to farewells.
    var asked = AskedPhones()

    subscript(client: ClientTransactionID) -> Owner? { owners[client] }

    /// The leg, if the transaction serves a branch. Its call may be forgotten already and take no more events.
    func branch(_ client: ClientTransactionID) -> BranchLeg? {
        guard case .branch(let leg)? = owners[client] else { return nil }
        return leg
    }

    mutating func start(_ client: ClientTransactionID, _ leg: BranchLeg) { owners[client] = .branch(leg) }

    /// The transaction is over, or its answer is of no interest any more.
    ///
    /// - Returns: the branch it served.
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

    /// - Returns: the question; `nil` when the transaction serves none, or it had ended before.
    mutating func endQuestion(_ client: ClientTransactionID) -> Question? {
        guard let question = question(client) else { return nil }
        owners[client] = nil
        return question
    }

    // MARK: Farewells

    mutating func start(_ client: ClientTransactionID, _ farewell: Farewell) { owners[client] = .farewell(farewell) }

    /// - Returns: the farewell; `nil` when the transaction serves none, or the farewell had ended before.
    mutating func endFarewell(_ client: ClientTransactionID) -> Farewell? {
        guard case .farewell(let farewell)? = owners[client] else { return nil }
        owners[client] = nil
        return farewell
    }
}

/// One request under way to a next hop, for a branch of a call.
struct BranchLeg {
    let call: Call
    let branch: Int
    /// What to do when this hop does not answer; `nil` when there is no other.
    var detour: Detour?
    /// A provisional response came: the request has arrived, whatever becomes of the connection.
    var hasArrived = false
    /// One was more than 100: whoever has the request is at work on it.
    var hasRung = false

    /// Whether the branch has another transaction by now, so that only a 2xx of this one still counts.
    func isFormer(_ client: ClientTransactionID) -> Bool { call.fork.branches[branch].former.contains(client) }

    /// Further addresses of the same next hop (RFC 3263 section 4.3). A class, since most hops have one address alone.
    final class Detour {
        let hops: [ResolvedHop]
        /// What to change in the request.
        let edits: RequestEdits
        let device: DeviceID?

        init(_ hops: [ResolvedHop], _ edits: RequestEdits, device: DeviceID?) {
            self.hops = hops
            self.edits = edits
            self.device = device
        }

        /// The addresses of other servers than the one at the end of that flow; `nil` when there is none. A phone is no server
        /// among several: each of its addresses is itself.
        func toOthers(than flow: Flow?) -> Detour? {
            guard device == nil, let flow else { return nil }
            let others = hops.filter { !$0.isSameServer(as: flow) }
            return others.isEmpty ? nil : Detour(others, edits, device: nil)
        }
    }
}

/// An INVITE that goes to a phone when its call is over, with its CANCEL: nobody waits for the answer, except perhaps the
/// phone's list of missed calls.
final class Farewell {
    let offer: Offer
    /// Whether the call is not in that list if the phone answers.
    let isQuestion: Bool
    let device: DeviceID
    let flow: Flow
    let listener: Listener
    let invite: IncomingRequest

    init(
        _ offer: Offer, isQuestion: Bool, to device: DeviceID, on flow: Flow, from listener: Listener,
        _ invite: IncomingRequest
    ) {
        self.offer = offer
        self.isQuestion = isQuestion
        self.device = device
        self.flow = flow
        self.listener = listener
        self.invite = invite
    }
}
