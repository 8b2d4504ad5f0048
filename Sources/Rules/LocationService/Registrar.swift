package import Addressing
package import Bytes
package import ProxyPolicy
package import PushDelivery
package import Registration
package import Routing
package import SIPGrammar
package import Timekeeping

/// The users and bindings, and the work that changes them: for each AOR, one piece of work at a time (RFC 3261 section
/// 10.3).
///
/// A REGISTER is authenticated (`ProxyEngine+Login`), planned (``RegisterProcessor``), committed to the store, and
/// completed: the daemon sends the 200, and then the calls that wait for the phone. The registrar keeps no state for a
/// REGISTER before its authentication. For a report or removal of devices over HTTP, the registrar begins with the
/// plan, which lists the changes to bindings.
package struct Registrar: ~Copyable {
    package var bindings: BindingTable
    package var users: UserDirectory
    /// The rules for the REGISTERs of all phones except the phones of tenants.
    private var commonProcessor: RegisterProcessor
    /// The rules for the REGISTERs of tenants that have push apps of their own, by domain in lower case.
    private var ownProcessors: [ByteString: RegisterProcessor] = [:]
    /// The maximum number of contacts of each tenant that has a limit, by domain in lower case.
    private var contactLimits: [ByteString: Int] = [:]
    /// The number of contacts of each tenant that are being written to the store.
    private var comingContacts: [ByteString: Int] = [:]
    /// The work on each AOR whose changes (the plan) are being written to the store.
    private var works: [AddressOfRecord: RegistrarQueue] = [:]
    private var commits: [CommitTicket: AddressOfRecord] = [:]
    private var lastCommit: UInt64 = 0
    /// The bindings whose last refresh is not in the store yet.
    package private(set) var refreshedLately = RefreshedBindings()
    private var dateField = DateField()
    /// The number that the next 200 to a REGISTER gets, by which its encrypted names differ.
    ///
    /// The first number of an answer is random, so that the encrypted names in the answers differ from the names of
    /// earlier runs.
    private var answers: UInt32 = 0
    /// The push providers that are switched on.
    package private(set) var enabledProviders: Set<PushProvider>
    /// Remembers whether the log has reported a push token that came without TLS.
    package var unprotectedTokens = UnprotectedTokens()
    /// The position in the repeated search for contacts that expire soon.
    private var refreshCursor: UInt32 = 0
    /// Whether the next step of the search for contacts that expire soon is scheduled.
    private var isWalkingForRefresh = false
    /// The number of stored contacts with each problem of their push tokens, for ``takeUnfit()``.
    private var unfit: [TokenProblem: Int] = [:]

    package init(
        settings: RegistrarSettings, users: UserDirectory, enabled: Set<PushProvider>, startedAt date: UnixTime
    ) {
        self.users = users
        commonProcessor = RegisterProcessor(settings: settings)
        enabledProviders = enabled
        bindings = BindingTable(enabled: ProviderSet(enabled), startedAt: date)
    }

    /// Sets the push apps and limits of the tenants (T41.4, T41.5). Contacts that are already stored remain, even above
    /// a new limit.
    package mutating func tenantsChanged(_ tenants: Tenants, apps: PushDirectory) {
        ownProcessors = [:]
        contactLimits = [:]
        commonProcessor = RegisterProcessor(settings: settings(of: nil, tenants, apps))
        for (index, tenant) in tenants.all.enumerated() {
            if tenants.haveApps {
                let settings = settings(of: TenantNumber(index), tenants, apps)
                ownProcessors[tenant.domain] = RegisterProcessor(settings: settings)
            }
            if tenant.settings.contacts > 0 { contactLimits[tenant.domain] = tenant.settings.contacts }
        }
        bindings.countBindings(of: Set(contactLimits.keys))
    }

    /// The settings for the REGISTERs of one tenant's phones, or of all other phones.
    private func settings(of number: TenantNumber?, _ tenants: Tenants, _ apps: PushDirectory) -> RegistrarSettings {
        var settings = commonProcessor.settings
        settings.push.isOfDomain = nil
        guard tenants.haveApps else { return settings }
        settings.push.isOfDomain = { token in
            guard let app = apps.app(for: token), let name = apps[app]?.name else { return true }
            return tenants.mayUse(app: name, number)
        }
        return settings
    }

    /// Sets the number of the next answer to a REGISTER.
    package mutating func numbersAnswers(from first: UInt32) { answers = first }

    // MARK: Providers

    /// Switches a provider off, and returns the contacts that have ended because only this provider could wake them.
    package mutating func switchedOff(_ provider: PushProvider, now: Instant) -> [BindingTable.Ended] {
        enabledProviders.remove(provider)
        return bindings.providerDisabled(provider, now: now)
    }

    package mutating func switchedOn(_ provider: PushProvider) {
        enabledProviders.insert(provider)
        bindings.providerEnabled(provider)
    }

    // MARK: The walk for contacts that need a refresh push

    /// Begins the repeated search for contacts that expire soon, and returns false if the search is already active.
    package mutating func walkStarts() -> Bool {
        defer { isWalkingForRefresh = true }
        return !isWalkingForRefresh
    }

    package mutating func walkPaused() { isWalkingForRefresh = false }

    /// Visits the next part of all stored contacts, in one of `steps` steps, and returns the contacts that expire
    /// within `lead`.
    package mutating func walked(steps: Int, lead: Duration, now: Instant) -> [DeviceID] {
        bindings.dueForRefresh(
            from: &refreshCursor, count: bindings.walkLength / steps + 1, lead: lead, now: now)
    }

    // MARK: Plan and commit

    /// Plans a piece of work, or queues it behind earlier work on the same AOR.
    package mutating func begin(_ work: RegistrarWork, for aor: AddressOfRecord, now: Moment) -> RegistrarStep {
        guard !works.isEmpty, let queue = works[aor] else { return plan(work, for: aor, now: now) }
        // The queue has room for each device of the user, because all devices may wake together, and for some other
        // work.
        guard queue.waiting.count < commonProcessor.settings.maxContacts + Self.reserve else { return .busy }
        works[aor]?.waiting.append(work)
        return .queued
    }

    private static var reserve: Int { 8 }

    private mutating func plan(_ work: RegistrarWork, for aor: AddressOfRecord, now: Moment) -> RegistrarStep {
        switch decision(on: work, for: aor, now: now) {
        case .rejected(let status, let fields, let problem): return .rejected(status, fields, problem)
        case .challenged: return .challenged
        case .refreshed(let refresh): return .refreshed(refresh)
        case .accepted(let plan) where plan.persist.isEmpty: return .planned(plan)
        case .accepted(let plan):
            guard !exceedsLimit(plan) else { return .rejected(.forbidden, [], nil) }
            lastCommit &+= 1
            let ticket = CommitTicket(lastCommit)
            let aor = aor.compacted()
            bindings.begin(plan)
            var queue = RegistrarQueue(current: work, plan: plan)
            queue.counted = count(plan)
            works[aor] = queue
            commits[ticket] = aor
            return .committing(plan, ticket)
        }
    }

    /// Whether a plan (the changes of a REGISTER) adds a contact to a tenant that has reached its limit of contacts.
    private func exceedsLimit(_ plan: RegisterPlan) -> Bool {
        guard !contactLimits.isEmpty, let limit = contactLimits[plan.aor.host], plan.newContacts > 0,
            let count = bindings.count(of: plan.aor.host)
        else { return false }
        return count + comingContacts[plan.aor.host, default: 0] + plan.newContacts > limit
    }

    /// Counts the contacts that a plan (the changes of a REGISTER) adds, until the plan is stored, and returns their
    /// number.
    private mutating func count(_ plan: RegisterPlan) -> Int {
        guard !contactLimits.isEmpty, plan.newContacts > 0 else { return 0 }
        comingContacts[plan.aor.host, default: 0] += plan.newContacts
        return plan.newContacts
    }

    private func decision(on work: RegistrarWork, for aor: AddressOfRecord, now: Moment) -> RegisterDecision {
        guard !ownProcessors.isEmpty, let own = ownProcessors[aor.host] else {
            return decision(on: work, for: aor, by: commonProcessor, now: now)
        }
        return decision(on: work, for: aor, by: own, now: now)
    }

    private func decision(
        on work: RegistrarWork, for aor: AddressOfRecord, by processor: borrowing RegisterProcessor, now: Moment
    ) -> RegisterDecision {
        switch work {
        case .register(let incoming):
            processor.plan(
                incoming.request, for: aor, on: incoming.flow, using: incoming.nonce, in: bindings, now: now)
        case .report(let device, _): processor.plan(device, for: aor, in: bindings, now: now)
        case .removal(let selection, _): .accepted(processor.plan(removing: selection, of: aor, in: bindings, now: now))
        }
    }

    /// Handles the result of a commit; `succeeded` is false if the store could not write the changes to the disk.
    ///
    /// - Returns: the work whose changes were stored, and the later work on the AOR, which must begin again in order.
    package mutating func committed(_ ticket: CommitTicket, succeeded: Bool) -> (
        aor: AddressOfRecord, queue: RegistrarQueue
    )? {
        guard let aor = commits.removeValue(forKey: ticket), let queue = works.removeValue(forKey: aor) else {
            return nil
        }
        if queue.counted > 0 { comingContacts[aor.host, default: 0] -= queue.counted }
        if !succeeded { bindings.cancel(queue.plan) }
        return (aor, queue)
    }

    /// Applies the changes of a plan to the bindings.
    package mutating func complete(_ plan: RegisterPlan) { bindings.apply(plan) }

    package mutating func complete(_ refresh: ContactRefresh) { bindings.apply(refresh) }

    /// Appends the header fields with which the 200 to a REGISTER lists the user's bindings.
    package mutating func appendOKFields(
        for plan: RegisterPlan, now: Moment, to out: inout ByteSink, seal: (SealedName, inout ByteSink) -> Void
    ) {
        answers &+= 1
        bindings.appendOKFields(
            for: plan.aor, plan.announcement, date: dateField.field(at: now.date), number: answers, now: now, to: &out,
            seal: seal)
    }

    package mutating func appendOKFields(
        for aor: AddressOfRecord, after refresh: ContactRefresh, now: Moment, to out: inout ByteSink,
        seal: (SealedName, inout ByteSink) -> Void
    ) {
        answers &+= 1
        bindings.appendOKFields(
            for: aor, commonProcessor.announcement(of: refresh), after: refresh, date: dateField.field(at: now.date),
            number: answers, now: now, to: &out, seal: seal)
    }

    // MARK: Callers

    /// The binding of the phone that sent the request: the phone is registered on the request's flow, under the user
    /// whom the request names as its caller. If the phone registers from a new address during the call, the daemon
    /// finds the phone's new flow by its binding.
    package func device(calling incoming: IncomingRequest, _ identity: LocalIdentity) -> DeviceID? {
        identity.callingUser(of: incoming).flatMap { aor in bindings.device(of: aor) { $0 == incoming.flow } }
    }

    // MARK: Bookkeeping

    /// Notes that a phone has refreshed a binding, and returns whether no other refreshed bindings wait to be written.
    package mutating func noteRefreshed(_ device: DeviceID, saying agent: ByteString) -> Bool {
        let isFirst = refreshedLately.isEmpty
        refreshedLately.insert(device, saying: agent)
        return isFirst
    }

    /// Removes and returns the rows of up to `limit` refreshed bindings; calls are served before the next rows are
    /// written.
    package mutating func refreshedRows(limit: Int, now: Moment) -> (rows: [StoredBinding], hasMore: Bool) {
        let rows = refreshedLately.take(limit)
            .compactMap { bindings.stored($0.device, userAgent: $0.agent, now: now) }
        return (rows, !refreshedLately.isEmpty)
    }

    /// Restores a binding from the store at start-up; if the result is false, the row must be deleted from the store.
    package mutating func restore(_ row: StoredBinding, now: Moment) -> Bool {
        switch bindings.restore(row, settings: (ownProcessors[row.aor.host] ?? commonProcessor).settings, now: now) {
        case .dropped: return false
        case .kept: return true
        case .unfit(let problem):
            unfit[problem, default: 0] += 1
            return true
        }
    }

    /// Returns, once after each start, how many stored contacts have push tokens that are no longer accepted, for each
    /// problem.
    package mutating func takeUnfit() -> [(problem: TokenProblem, count: Int)] {
        defer { unfit = [:] }
        return TokenProblem.allCases.compactMap { problem in unfit[problem].map { (problem, $0) } }
    }
}

/// A piece of the registrar's work, which changes the devices of an AOR.
package enum RegistrarWork {
    case register(IncomingRequest)
    case report(ReportedDevice, ReportTicket)
    case removal(DeviceSelection, ReportTicket)
}

/// The result of planning a change to the devices of an AOR.
package enum RegistrarStep {
    /// The registrar's work on the AOR waits for earlier work on the AOR.
    case queued
    /// The registrar refuses the work, because too much work already waits for its AOR.
    case busy
    case rejected(Status, [AddedField], TokenProblem?)
    /// The REGISTER used a nonce that its binding does not keep.
    case challenged
    /// The REGISTER only refreshes a push contact, so that nothing must be stored first.
    case refreshed(ContactRefresh)
    /// The changes of a REGISTER can be applied now, because nothing must be stored first.
    case planned(RegisterPlan)
    /// The changes of a REGISTER must be written to the store under the given ticket.
    case committing(RegisterPlan, CommitTicket)
}

/// The work on one AOR: the current work, which waits for its commit, and the work behind it.
package struct RegistrarQueue {
    package let current: RegistrarWork
    package let plan: RegisterPlan
    package internal(set) var waiting: [RegistrarWork] = []
    /// The number of contacts that the current work adds, and that count against a tenant's limit.
    fileprivate var counted = 0
}
