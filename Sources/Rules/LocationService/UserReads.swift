package import Addressing
import Bytes
package import PushPlanning
package import Registration
package import Routing
import SIPGrammar
package import SIPTransactions
package import Timekeeping

/// The work that waits until the store has answered a question about users.
///
/// With several nodes on one store, another node may have changed a user. Therefore the engine reads the users of each
/// request from the store before it decides about the request. If this node orders a change of a user before the answer
/// comes, the answer may be older than the change, so the engine asks the question again.
///
/// Requests of phones have limits: for each source address, and for all phones together.
package struct UserReads {
    /// Work that continues after the answer.
    package enum Work {
        case request(IncomingRequest)
        /// An ACK of a 2xx, which has no transaction.
        case acknowledgement(IncomingRequest)
        /// A change of a user's devices that an HTTP client ordered.
        case change(RegistrarWork, AddressOfRecord)
        /// The calls and messages that wait for devices of the users.
        case waiting
        /// A question of an operator about the user.
        case look(LookTicket)
        /// Refresh pushes to contacts of the users.
        case refreshes([RefreshPushes.Contact])
        /// The adoption of users whose contacts have lost their node.
        case orphans
        /// A call of a node that has ended.
        case takenOver(TakeoverTicket)
        /// A user whom the node with the duties registers at a PBX, and who may have changed at another node.
        case upstreamUser(AddressOfRecord)
        /// The password of a user for the challenge of a PBX.
        case upstreamPassword(AddressOfRecord)
        /// Users whom a search has found, and when their phones last registered.
        case upstreamCandidates([AddressOfRecord: UnixTime])
    }

    /// A question for the store.
    package struct Question: Sendable {
        package let ticket: ReadTicket
        package let subjects: [UserSubject]
    }

    package enum Admission {
        case asks(Question)
        /// The request is a copy of a waiting request.
        case waitsAlready
        /// Too much work waits, so the request must be refused.
        case noRoom
    }

    /// The next step after an answer of the store.
    package enum Outcome {
        /// The work continues with the given users.
        case proceeds(Work, [UserSubject])
        /// The answer may be older than a change of this node, so the question must be asked again.
        case asksAgain(Question)
        /// The work has already ended, for example by a CANCEL.
        case nothing
    }

    private struct Open {
        let question: Question
        let work: Work
        /// Whether this node has ordered a change of one of the users after the question was asked.
        var isOutdated = false
    }

    private var open: [ReadTicket: Open] = [:]
    private var byTransaction: [TransactionKey: ReadTicket] = [:]
    private var lastTicket: UInt64 = 0
    private var counts: [IPAddress: Int] = [:]
    private var untrusted = 0
    private var bytes = 0

    /// The maximum numbers of waiting requests: in all, from one address, and from all phones together.
    private static let share = FairShare(of: 20_000, ofOne: 200, ofUntrusted: 15_000)
    /// The maximum size of all waiting requests together.
    private static let longest = 64 << 20

    package init() {}

    package var isEmpty: Bool { open.isEmpty }
    package var count: Int { open.count }

    /// Holds work until the store has answered about the given users.
    package mutating func hold(_ work: Work, concerning subjects: [UserSubject]) -> Admission {
        if let incoming = work.incoming {
            if let key = incoming.key, byTransaction[key] != nil { return .waitsAlready }
            guard admits(incoming) else { return .noRoom }
            count(incoming, by: 1)
        }
        return .asks(ask(subjects, for: work))
    }

    private func admits(_ incoming: IncomingRequest) -> Bool {
        let own = incoming.isTrusted ? 0 : counts[incoming.flow.remote.address.source, default: 0]
        let taken = FairShare.Taken(all: open.count, untrusted: untrusted, own: own)
        return bytes + incoming.request.frame.bytes.count <= Self.longest
            && Self.share.refusal(beside: taken, isTrusted: incoming.isTrusted) == nil
    }

    private mutating func ask(_ subjects: [UserSubject], for work: Work) -> Question {
        lastTicket += 1
        let question = Question(ticket: ReadTicket(lastTicket), subjects: subjects)
        open[question.ticket] = Open(question: question, work: work)
        if let key = work.incoming?.key { byTransaction[key] = question.ticket }
        return question
    }

    /// Notes that this node orders a change of a user with the given devices.
    package mutating func changeOrdered(of aor: AddressOfRecord, devices: [DeviceID]) {
        for (ticket, read) in open where !read.isOutdated {
            let isConcerned = read.question.subjects.contains { subject in
                switch subject {
                case .user(let user): user == aor
                case .device(let device): devices.contains(device)
                case .account: false
                }
            }
            if isConcerned { open[ticket]?.isOutdated = true }
        }
    }

    /// The result of ``cancelled(_:if:)``.
    package enum Cancellation {
        /// No such request waits.
        case nothing
        /// The request waits on, because the CANCEL may not end it.
        case foreign
        case ended(IncomingRequest)
    }

    /// Removes the waiting request that a CANCEL names, if the CANCEL may end it.
    package mutating func cancelled(
        _ key: TransactionKey, if mayEnd: (IncomingRequest, [UserSubject]) -> Bool
    ) -> Cancellation {
        guard let ticket = byTransaction[key], let read = open[ticket], let incoming = read.work.incoming else {
            return .nothing
        }
        guard mayEnd(incoming, read.question.subjects) else { return .foreign }
        open[ticket] = nil
        ended(read.work)
        return .ended(incoming)
    }

    /// Removes and returns the waiting requests that match, because another node continues them.
    package mutating func withdraw(where matches: (IncomingRequest, [UserSubject]) -> Bool) -> [IncomingRequest] {
        let found = open.filter { _, read in
            if case .request(let incoming) = read.work { matches(incoming, read.question.subjects) } else { false }
        }
        for (ticket, read) in found {
            open[ticket] = nil
            ended(read.work)
        }
        return found.values.compactMap(\.work.incoming)
    }

    /// Returns the next step after the answer to the question with the given ticket. A failure counts as an answer.
    package mutating func answered(_ ticket: ReadTicket) -> Outcome {
        guard let read = open.removeValue(forKey: ticket) else { return .nothing }
        guard !read.isOutdated else { return .asksAgain(ask(read.question.subjects, for: read.work)) }
        ended(read.work)
        return .proceeds(read.work, read.question.subjects)
    }

    private mutating func ended(_ work: Work) {
        guard let incoming = work.incoming else { return }
        if let key = incoming.key { byTransaction[key] = nil }
        count(incoming, by: -1)
    }

    private mutating func count(_ incoming: IncomingRequest, by change: Int) {
        bytes += change * incoming.request.frame.bytes.count
        guard !incoming.isTrusted else { return }
        untrusted += change
        let source = incoming.flow.remote.address.source
        let left = counts[source, default: 0] + change
        counts[source] = left > 0 ? left : nil
    }
}

/// Identifies a call of an ended node, which waits until its user is read.
package struct TakeoverTicket: Hashable, Sendable {
    package let number: UInt64

    package init(_ number: UInt64) { self.number = number }
}

/// Identifies an operator's question about a user, which waits until the user is read.
package struct LookTicket: Hashable, Sendable {
    package let number: UInt64

    package init(_ number: UInt64) { self.number = number }
}

extension UserReads.Work {
    fileprivate var incoming: IncomingRequest? {
        switch self {
        case .request(let incoming), .acknowledgement(let incoming): incoming
        case .change(.register(let incoming), _): incoming
        case .change, .waiting, .look, .refreshes, .orphans, .takenOver, .upstreamUser, .upstreamPassword,
            .upstreamCandidates:
            nil
        }
    }
}
