import Addressing
import Bytes
package import PushDelivery
package import Registration
import SIPGrammar
import Timekeeping

/// The registrar: users, their bindings, and the work on them, one at a time for each AOR (RFC 3261 section 10.3).
///
/// A REGISTER passes these stages: it is authenticated (`ProxyEngine+Login`, nothing is kept of it before), planned
/// (``RegisterProcessor``), committed to the store, and completed: answered, and the calls that wait let out. An upstream
/// registrar would be asked between plan and commit. What is told of devices in another way begins with the plan.
package struct Registrar: ~Copyable {
    package internal(set) var bindings: BindingTable
    package internal(set) var users: UserDirectory
    private let processor: RegisterProcessor
    /// The work on each AOR whose plan is being committed.
    private var works: [AddressOfRecord: RegistrarQueue] = [:]
    private var commits: [CommitTicket: AddressOfRecord] = [:]
    private var lastCommit: UInt64 = 0
    /// Bindings whose expiry and CSeq in the store are behind.
    private(set) var refreshedLately = RefreshedBindings()
    private var dateField = DateField()
    /// Counts the answers that say what bindings there are. It begins anywhere, so that the names in them are others than
    /// those of the run before.
    var answers: UInt32 = 0
    /// Providers that are switched on.
    package internal(set) var enabledProviders: Set<PushProvider>
    /// The log says once that push tokens come unprotected.
    var unprotectedTokens = UnprotectedTokens()
    /// How far the walk for contacts that end soon has come, and whether there is one.
    var refreshCursor: UInt32 = 0
    var isWalkingForRefresh = false
    /// What ``takeUnfit()`` gives.
    private var unfit: [TokenProblem: Int] = [:]

    init(settings: RegistrarSettings, users: UserDirectory, enabled: Set<PushProvider>, startedAt date: UnixTime) {
        self.users = users
        processor = RegisterProcessor(settings: settings)
        enabledProviders = enabled
        bindings = BindingTable(enabled: ProviderSet(enabled), startedAt: date)
    }

    // MARK: Plan and commit

    /// Plans the work, or lets it wait for that before it.
    mutating func begin(_ work: RegistrarWork, for aor: AddressOfRecord, now: Moment) -> RegistrarStep {
        guard !works.isEmpty, let queue = works[aor] else { return plan(work, for: aor, now: now) }
        // A place for each device, and for what else concerns the user: all of them may wake at once.
        guard queue.waiting.count < processor.settings.maxContacts + Self.reserve else { return .busy }
        works[aor]?.waiting.append(work)
        return .queued
    }

    private static var reserve: Int { 8 }

    private mutating func plan(_ work: RegistrarWork, for aor: AddressOfRecord, now: Moment) -> RegistrarStep {
        switch decision(on: work, for: aor, now: now) {
        case .rejected(let status, let fields, let problem): return .rejected(status, fields, problem)
        case .refreshed(let refresh): return .refreshed(refresh)
        case .accepted(let plan) where plan.persist.isEmpty: return .planned(plan)
        case .accepted(let plan):
            lastCommit &+= 1
            let ticket = CommitTicket(lastCommit)
            let aor = aor.compacted()
            bindings.begin(plan)
            works[aor] = RegistrarQueue(current: work, plan: plan)
            commits[ticket] = aor
            return .committing(plan, ticket)
        }
    }

    private func decision(on work: RegistrarWork, for aor: AddressOfRecord, now: Moment) -> RegisterDecision {
        switch work {
        case .register(let incoming):
            processor.plan(incoming.request, for: aor, on: incoming.flow, in: bindings, now: now)
        case .report(let device, _): processor.plan(device, for: aor, in: bindings, now: now)
        case .removal(let selection, _): .accepted(processor.plan(removing: selection, of: aor, in: bindings, now: now))
        }
    }

    /// The store has committed a plan, or could not.
    ///
    /// - Returns: the work whose plan it was, and what waited behind it; that begins anew, in its order.
    mutating func committed(_ ticket: CommitTicket, succeeded: Bool) -> (aor: AddressOfRecord, queue: RegistrarQueue)? {
        guard let aor = commits.removeValue(forKey: ticket), let queue = works.removeValue(forKey: aor) else {
            return nil
        }
        if !succeeded { bindings.cancel(queue.plan) }
        return (aor, queue)
    }

    /// What was decided takes effect.
    mutating func complete(_ plan: RegisterPlan) { bindings.apply(plan) }

    mutating func complete(_ refresh: ContactRefresh) { bindings.apply(refresh) }

    /// What the 200 to a REGISTER says of the bindings.
    mutating func appendOKFields(
        for plan: RegisterPlan, now: Moment, to out: inout ByteSink, seal: (SealedName, inout ByteSink) -> Void
    ) {
        answers &+= 1
        bindings.appendOKFields(
            for: plan.aor, plan.announcement, date: dateField.field(at: now.date), number: answers, now: now, to: &out,
            seal: seal)
    }

    mutating func appendOKFields(
        for aor: AddressOfRecord, after refresh: ContactRefresh, now: Moment, to out: inout ByteSink,
        seal: (SealedName, inout ByteSink) -> Void
    ) {
        answers &+= 1
        bindings.appendOKFields(
            for: aor, processor.announcement(of: refresh), after: refresh, date: dateField.field(at: now.date),
            number: answers, now: now, to: &out, seal: seal)
    }

    // MARK: Bookkeeping

    /// A phone has refreshed these, and said what it is.
    ///
    /// - Returns: whether these are the first since all was written.
    mutating func noteRefreshed(_ devices: some Collection<DeviceID>, saying agent: ByteString) -> Bool {
        guard !devices.isEmpty else { return false }
        let isFirst = refreshedLately.isEmpty
        refreshedLately.insert(devices, saying: agent)
        return isFirst
    }

    /// Some of the rows that were refreshed lately, so that calls do not wait behind all of them.
    mutating func refreshedRows(limit: Int, now: Moment) -> (rows: [StoredBinding], hasMore: Bool) {
        let rows = refreshedLately.take(limit)
            .compactMap { bindings.stored($0.device, userAgent: $0.agent, now: now) }
        return (rows, !refreshedLately.isEmpty)
    }

    /// Takes a binding from the store at start-up; false when its row is to be deleted.
    mutating func restore(_ row: StoredBinding, now: Moment) -> Bool {
        switch bindings.restore(row, settings: processor.settings, now: now) {
        case .dropped: return false
        case .kept: return true
        case .unfit(let problem):
            unfit[problem, default: 0] += 1
            return true
        }
    }

    /// Contacts of the store with tokens that are not taken any more, by what is wrong with them: once, after a start.
    mutating func takeUnfit() -> [(problem: TokenProblem, count: Int)] {
        defer { unfit = [:] }
        return TokenProblem.allCases.compactMap { problem in unfit[problem].map { (problem, $0) } }
    }
}

/// What changes an AOR's devices.
enum RegistrarWork {
    case register(IncomingRequest)
    case report(ReportedDevice, ReportTicket)
    case removal(DeviceSelection, ReportTicket)
}

/// What becomes of a piece of work.
enum RegistrarStep {
    /// It waits for the work before it.
    case queued
    /// Too much waits already.
    case busy
    case rejected(Status, [AddedField], TokenProblem?)
    /// A push contact is refreshed; nothing has to be written first.
    case refreshed(ContactRefresh)
    /// The same of a plan.
    case planned(RegisterPlan)
    /// The changes of the plan go to the store with this ticket.
    case committing(RegisterPlan, CommitTicket)
}

/// The work on one AOR: the first waits for its commit, the others for their turn.
struct RegistrarQueue {
    let current: RegistrarWork
    let plan: RegisterPlan
    var waiting: [RegistrarWork] = []
}
