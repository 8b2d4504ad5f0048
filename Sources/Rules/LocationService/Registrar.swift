package import Addressing
package import Bytes
package import ProxyPolicy
package import PushDelivery
package import Registration
package import Routing
package import SIPGrammar
package import Timekeeping

/// The users and their bindings, with the changes in progress; changes of one AOR are made one after the other (RFC
/// 3261 section 10.3).
///
/// A REGISTER is authenticated (`ProxyEngine+Login`), planned (``RegisterProcessor``), committed to the store, and
/// answered with 200. After that, waiting calls are sent to the phone. The registrar keeps no state for a REGISTER
/// before its authentication. If devices are reported or removed over HTTP, the work begins with the plan, which is a
/// list of changes of bindings.
package struct Registrar: ~Copyable {
    package var bindings: BindingTable
    package var users: UserDirectory
    /// The work that waits until the store has answered about users, while several nodes use the store.
    package var reads = UserReads()
    /// The rules for the REGISTERs of phones that belong to no tenant.
    private var commonProcessor: RegisterProcessor
    /// The REGISTER rules of tenants with their own push apps, by domain in lower case.
    private var ownProcessors: [ByteString: RegisterProcessor] = [:]
    /// The maximum number of contacts of each limited tenant, by domain in lower case.
    private var contactLimits: [ByteString: Int] = [:]
    /// The number of new contacts that the store is writing, for each tenant.
    private var comingContacts: [ByteString: Int] = [:]
    /// The change that the store is writing for each AOR, and the requests that wait for the change.
    private var works: [AddressOfRecord: RegistrarQueue] = [:]
    private var commits: [CommitTicket: AddressOfRecord] = [:]
    private var lastCommit: UInt64 = 0
    /// The bindings whose last refresh is not in the store yet.
    package private(set) var refreshedLately = RefreshedBindings()
    private var dateField = DateField()
    /// The number of the next 200 to a REGISTER. The number makes the encrypted values (temporary GRUU and `pn-purr`)
    /// of each 200 different.
    ///
    /// The first number is random, so that the encrypted values differ from the values of earlier runs.
    private var answers: UInt32 = 0
    package private(set) var enabledProviders: Set<PushProvider>
    /// Whether the log has reported a push token that came without TLS.
    package var unprotectedTokens = UnprotectedTokens()
    /// The position of the repeated search for contacts that expire soon.
    private var refreshCursor: UInt32 = 0
    /// Whether the next step of the search for contacts that expire soon is scheduled.
    private var isScanningForRefresh = false
    /// For each problem of push tokens, the number of stored contacts with this problem; see ``takeUnfit()``.
    private var unfit: [TokenProblem: Int] = [:]

    package init(
        settings: RegistrarSettings, users: UserDirectory, enabled: Set<PushProvider>, startedAt date: UnixTime,
        run: UInt32? = nil
    ) {
        self.users = users
        commonProcessor = RegisterProcessor(settings: settings)
        enabledProviders = enabled
        bindings = BindingTable(enabled: ProviderSet(enabled), startedAt: date, run: run)
    }

    /// Sets the push apps and limits of the tenants (T41.4, T41.5). Stored contacts of a tenant remain even above a new
    /// limit of contacts.
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

    /// The REGISTER settings for one tenant's phones; `nil` stands for all phones without a tenant.
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

    /// Switches a push provider off, and returns the removed contacts that only this provider could wake.
    package mutating func switchedOff(_ provider: PushProvider, now: Instant) -> [BindingTable.Ended] {
        enabledProviders.remove(provider)
        return bindings.providerDisabled(provider, now: now)
    }

    package mutating func switchedOn(_ provider: PushProvider) {
        enabledProviders.insert(provider)
        bindings.providerEnabled(provider)
    }

    // MARK: The search for contacts that need a refresh push

    /// Begins the repeated search for contacts that expire soon. The result is false if the search is already active.
    package mutating func scanStarts() -> Bool {
        defer { isScanningForRefresh = true }
        return !isScanningForRefresh
    }

    package mutating func scanPaused() { isScanningForRefresh = false }

    /// Examines a part of the stored contacts, and returns the contacts that expire within `lead`. After `steps` calls,
    /// all contacts were examined.
    package mutating func scanned(steps: Int, lead: Duration, now: Instant) -> [DeviceID] {
        bindings.dueForRefresh(
            from: &refreshCursor, count: bindings.scanLength / steps + 1, lead: lead, now: now)
    }

    // MARK: Plan and commit

    /// Plans a REGISTER or HTTP request, or queues it behind earlier work on the same AOR.
    package mutating func begin(_ work: RegistrarWork, for aor: AddressOfRecord, now: Moment) -> RegistrarStep {
        guard !works.isEmpty, let queue = works[aor] else { return plan(work, for: aor, now: now) }
        // The queue has room for a REGISTER from each device of the user, because all devices may wake together.
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

    /// Whether the changes of a REGISTER add a contact for a tenant that has reached its limit of contacts.
    private func exceedsLimit(_ plan: RegisterPlan) -> Bool {
        guard !contactLimits.isEmpty, let limit = contactLimits[plan.aor.host], plan.newContacts > 0,
            let count = bindings.count(of: plan.aor.host)
        else { return false }
        return count + comingContacts[plan.aor.host, default: 0] + plan.newContacts > limit
    }

    /// Counts the new contacts of a REGISTER toward the tenant's limit while the store writes them, and returns their
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

    /// Handles the result of a commit; `succeeded` is false if the store could not write the changes.
    ///
    /// - Returns: the work whose changes were stored, and the queued work on the AOR; the queued work must begin again
    ///   in order.
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

    /// Applies the changes of a REGISTER or HTTP request to the bindings.
    package mutating func complete(_ plan: RegisterPlan) { bindings.apply(plan) }

    package mutating func complete(_ refresh: ContactRefresh) { bindings.apply(refresh) }

    /// Appends the header fields that list the user's bindings in the 200 to a REGISTER.
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

    /// The binding of the phone that sent the request, found by the flow and by the caller in the request. If the phone
    /// registers from a new address during the call, the binding has the phone's new flow.
    package func device(calling incoming: IncomingRequest, _ identity: LocalIdentity) -> DeviceID? {
        identity.callingUser(of: incoming).flatMap { aor in bindings.device(of: aor) { $0 == incoming.flow } }
    }

    // MARK: Bookkeeping

    /// Notes that a phone has refreshed a binding. The result is true if this binding is the only one that waits to be
    /// written to the store.
    package mutating func noteRefreshed(_ device: DeviceID, saying agent: ByteString) -> Bool {
        let isFirst = refreshedLately.isEmpty
        refreshedLately.insert(device, saying: agent)
        return isFirst
    }

    /// Removes and returns the rows of up to `limit` refreshed bindings; calls are served between two batches of rows.
    package mutating func refreshedRows(limit: Int, now: Moment) -> (rows: [StoredBinding], hasMore: Bool) {
        let rows = refreshedLately.take(limit)
            .compactMap { bindings.stored($0.device, userAgent: $0.agent, now: now) }
        return (rows, !refreshedLately.isEmpty)
    }

    /// Returns the rows of a user's bindings whose last refresh waits here to be written. With `withWritten`, also the rows
    /// of all bindings that have registered lately, because their refresh may wait in the shell. While a change of the user
    /// is being stored, these rows are left out.
    package mutating func recentRows(of aor: AddressOfRecord, withWritten: Bool, now: Moment) -> [StoredBinding] {
        let ids = bindings.ids(of: aor)
        let refreshed = Dictionary(refreshedLately.take(ids).map { ($0.device, $0.agent) }) { $1 }
        return ids.compactMap { id in
            let isRecent = bindings.binding(id).map { now.date - $0.registeredAt < Self.refreshTime } ?? false
            guard refreshed[id] != nil || withWritten && isRecent && !isChanging(aor) else { return nil }
            return bindings.stored(id, userAgent: refreshed[id] ?? nil, now: now)
        }
    }

    /// The longest time from a refresh to its row in the store.
    private static let refreshTime: Duration = .seconds(20)

    /// Restores a stored binding at start-up. If the result is false, the caller must delete the binding from the
    /// store.
    package mutating func restore(_ row: StoredBinding, now: Moment) -> Bool {
        switch bindings.restore(row, settings: (ownProcessors[row.aor.host] ?? commonProcessor).settings, now: now) {
        case .dropped: return false
        case .kept: return true
        case .unfit(let problem):
            unfit[problem, default: 0] += 1
            return true
        }
    }

    /// Replaces the bindings of a user by the rows that the store has just returned. The bindings `expiring` are over,
    /// and are removed next.
    package mutating func adopt(
        _ rows: [StoredBinding], of aor: AddressOfRecord, expiring: Set<DeviceID> = [], now: Moment
    ) -> BindingTable.Adoption {
        bindings.adopt(
            rows, of: aor, expiring: expiring, settings: (ownProcessors[aor.host] ?? commonProcessor).settings,
            now: now)
    }

    /// Adopts the accounts that the store has just returned. An account of the question that the store has not returned
    /// does not exist.
    ///
    /// - Returns: the known accounts that do not exist any more.
    package mutating func adopt(_ accounts: [DigestUser], askedFor subjects: [UserSubject]) -> [DigestUser] {
        var removed: [DigestUser] = []
        for case .account(let name, let realm) in subjects {
            if !accounts.contains(where: { $0.name == name && $0.realm == realm }) {
                if let user = users.remove(name: name, realm: realm) { removed.append(user) }
            }
        }
        for account in accounts where users.user(named: account.name, realm: account.realm) != account {
            users.add(account)
        }
        return removed
    }

    /// Whether the store is writing a change of the user's bindings.
    package func isChanging(_ aor: AddressOfRecord) -> Bool { works[aor] != nil }

    /// Notes that a change of a user goes to the store, so that the engine asks earlier questions about the user again.
    package mutating func changeOrdered(of aor: AddressOfRecord) {
        guard !reads.isEmpty else { return }
        reads.changeOrdered(of: aor, devices: bindings.ids(of: aor))
    }

    /// The number of stored contacts for each push token problem, returned only once after each start.
    package mutating func takeUnfit() -> [(problem: TokenProblem, count: Int)] {
        defer { unfit = [:] }
        return TokenProblem.allCases.compactMap { problem in unfit[problem].map { (problem, $0) } }
    }
}

/// A REGISTER or HTTP request that changes the devices of an AOR.
package enum RegistrarWork {
    case register(IncomingRequest)
    case report(ReportedDevice, ReportTicket)
    case removal(DeviceSelection, ReportTicket)
}

/// The next step of a REGISTER or HTTP request that changes the devices of an AOR.
package enum RegistrarStep {
    /// The REGISTER or HTTP request waits for earlier work on its AOR.
    case queued
    /// The registrar refuses the REGISTER or HTTP request, because too much work waits for its AOR.
    case busy
    case rejected(Status, [AddedField], TokenProblem?)
    /// The REGISTER used a nonce that its binding does not keep, and must be challenged.
    case challenged
    /// The REGISTER only refreshed a contact with push token, so nothing must be stored first.
    case refreshed(ContactRefresh)
    /// The changes can be applied now, because nothing must be stored first.
    case planned(RegisterPlan)
    /// The changes of a REGISTER or HTTP request must be written to the store under the given ticket.
    case committing(RegisterPlan, CommitTicket)
}

/// The work on one AOR: the present work, which waits for its commit, and the work that waits for the present work.
package struct RegistrarQueue {
    package let current: RegistrarWork
    package let plan: RegisterPlan
    package internal(set) var waiting: [RegistrarWork] = []
    /// The number of contacts that the current work adds toward a tenant's limit.
    fileprivate var counted = 0
}
