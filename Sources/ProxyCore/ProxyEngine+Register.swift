import Addressing
import PushDelivery
package import Registration
import SIPGrammar
import Telemetry
package import Timekeeping

extension ProxyEngine {
    /// RFC 3261 section 10.3: authenticate, plan, commit, then answer; REGISTERs of one AOR one after the other.
    func registerReceived(_ incoming: IncomingRequest, now: Moment) {
        let request = incoming.request
        guard let home = identity.home(of: request.to.uri),
            let aor = AddressOfRecord(request.to.uri, home: home)
        else {
            refuse(incoming, .notFound, now: now)
            return
        }
        guard request.path.isEmpty || isTrusted(incoming.flow.remote) else {
            refusePath(incoming, for: aor, now: now)
            return
        }
        guard authenticateRegister(incoming, for: aor, now: now) else { return }
        if !registersInFlight.isEmpty, registersInFlight[aor] != nil {
            enqueue(.register(incoming), for: aor, now: now)
            return
        }
        planRegister(incoming, for: aor, now: now)
    }

    /// A device that somebody told of over HTTP, on the same directory as the REGISTERs; ends with
    /// ``ProxyAction/reported(_:_:)``.
    package func deviceReported(_ device: ReportedDevice, of aor: AddressOfRecord, _ ticket: ReportTicket, now: Moment)
    {
        begin(.report(device, ticket), for: aor.compacted(), now: now)
        settle(now: now)
    }

    /// Devices that are to be forgotten, by the word of their app; ends with ``ProxyAction/reported(_:_:)``.
    package func devicesWithdrawn(
        _ selection: DeviceSelection, of aor: AddressOfRecord, _ ticket: ReportTicket, now: Moment
    ) {
        begin(.removal(selection, ticket), for: aor.compacted(), now: now)
        settle(now: now)
    }

    private func begin(_ work: DeviceWork, for aor: AddressOfRecord, now: Moment) {
        guard registersInFlight[aor] == nil else {
            enqueue(work, for: aor, now: now)
            return
        }
        switch work {
        case .register(let incoming): planRegister(incoming, for: aor, now: now)
        case .report(let device, let ticket):
            switch registrar.plan(device, for: aor, in: bindings, now: now) {
            case .accepted(let plan): commit(plan, of: work, for: aor)
            case .rejected(.pushNotSupported, _): act(.reported(ticket, .notSupported))
            case .rejected(.forbidden, _): act(.reported(ticket, .tooManyDevices))
            case .rejected: act(.reported(ticket, .malformed))
            }
        case .removal(let selection, let ticket):
            let plan = registrar.plan(removing: selection, of: aor, in: bindings, now: now)
            if plan.persist.isEmpty {
                act(.reported(ticket, .done(0)))
            } else {
                commit(plan, of: work, for: aor)
            }
        }
    }

    private func authenticateRegister(_ incoming: IncomingRequest, for aor: AddressOfRecord, now: Moment) -> Bool {
        guard settings.authenticates else { return true }
        let realm = digest.realm(for: aor.host)
        let verdict = digest.check(
            incoming.request, as: .registrar, realm: realm, owner: aor.user, on: incoming.flow, users: users,
            now: now.instant)
        count(verdict)
        switch verdict {
        case .authenticated:
            noteProved(incoming.flow)
            return true
        case .forbidden:
            counters.count(.registerRefused)
            refuse(incoming, .forbidden, now: now)
        case .challenge(let isStale):
            let fields = digest.challenge(realm: realm, stale: isStale, as: .registrar, now: now.instant)
            refuse(incoming, .unauthorized, fields: fields, now: now)
        }
        return false
    }

    /// A Path says where requests are sent: that is an edge's word, and not a phone's (T9.3).
    private func refusePath(_ incoming: IncomingRequest, for aor: AddressOfRecord, now: Moment) {
        counters.count(.registerRefused)
        log.info(
            "REGISTER refused, its Path is not of a trusted address",
            [.aor: .described(aor), .source: .described(incoming.flow.remote)])
        var warning = Array("399 ".utf8)
        warning.append(aor.host)
        warning.append(" \"Path from an address that is not trusted\"")
        refuse(incoming, .forbidden, fields: [AddedField("Warning", ByteString(warning))], now: now)
    }

    /// The shell keeps streams that prove themselves. It may hear so again, which costs less than remembering.
    func noteProved(_ flow: Flow) {
        if flow.connection != 0 { act(.flowProved(flow)) }
    }

    private func enqueue(_ work: DeviceWork, for aor: AddressOfRecord, now: Moment) {
        let limit = settings.registrar.maxContacts + RegisterQueue.reserve
        guard let queue = registersInFlight[aor], queue.waiting.count < limit else {
            refuse(work, retryAfter: 5, now: now)
            return
        }
        registersInFlight[aor]?.waiting.append(work)
    }

    /// Cannot be done now.
    private func refuse(_ work: DeviceWork, retryAfter seconds: Int, now: Moment) {
        switch work {
        case .register(let incoming):
            refuse(incoming, .serviceUnavailable, fields: [Self.retryAfter(seconds: seconds)], now: now)
        case .report(_, let ticket), .removal(_, let ticket): act(.reported(ticket, .unavailable))
        }
    }

    private func planRegister(_ incoming: IncomingRequest, for aor: AddressOfRecord, now: Moment) {
        let decision = registrar.plan(incoming.request, for: aor, on: incoming.flow, in: bindings, now: now)
        if !called.isEmpty, case .accepted(let plan) = decision { traceRegistered(plan.refreshed, now: now) }
        switch decision {
        case .rejected(let status, let fields):
            counters.count(.registerRefused)
            refuse(incoming, status, fields: fields, now: now)
        case .accepted(let plan) where plan.persist.isEmpty:
            completeRegister(incoming, plan, for: aor, now: now)
        case .accepted(let plan): commit(plan, of: .register(incoming), for: aor.compacted())
        }
    }

    private func commit(_ plan: RegisterPlan, of work: DeviceWork, for aor: AddressOfRecord) {
        let ticket = CommitTicket(nextNumber())
        bindings.begin(plan)
        registersInFlight[aor] = RegisterQueue(current: work, plan: plan)
        commits[ticket] = aor
        act(.commit(plan.persist.map(StoredChange.binding), ticket))
    }

    /// The store committed the changes of a ticket, or could not.
    package func committed(_ ticket: CommitTicket, succeeded: Bool, now: Moment) {
        guard let aor = commits.removeValue(forKey: ticket), let queue = registersInFlight.removeValue(forKey: aor)
        else { return }
        if succeeded {
            complete(queue.current, queue.plan, for: aor, now: now)
        } else {
            counters.count(.registerRefused)
            bindings.cancel(queue.plan)
            refuse(queue.current, retryAfter: 10, now: now)
        }
        // In their order; the first that needs a commit makes the rest wait again.
        for work in queue.waiting {
            if registersInFlight[aor] != nil {
                registersInFlight[aor]?.waiting.append(work)
            } else {
                begin(work, for: aor, now: now)
            }
        }
        settle(now: now)
    }

    private func complete(_ work: DeviceWork, _ plan: RegisterPlan, for aor: AddressOfRecord, now: Moment) {
        switch work {
        case .register(let incoming): completeRegister(incoming, plan, for: aor, now: now)
        case .report(_, let ticket), .removal(_, let ticket):
            bindings.apply(plan)
            count(plan.facts)
            for fact in plan.facts {
                log.info("device reported", [.aor: .described(aor), .outcome: .text("\(fact)")])
            }
            for device in plan.removed { deviceRemoved(device, of: aor, now: now) }
            act(.reported(ticket, .done(plan.persist.count)))
        }
    }

    /// What was planned is on disk: make it so, answer, and only then let the held calls out (R17, A11).
    private func completeRegister(
        _ incoming: IncomingRequest, _ plan: RegisterPlan, for aor: AddressOfRecord, now: Moment
    ) {
        bindings.apply(plan)
        note(plan, for: aor, on: incoming.flow)
        noteBookkeeping(of: plan, now: now)
        count(plan.facts)
        counters.count(.registerAccepted)
        // Where nobody has to prove himself, a contact is all the proof there is.
        if !settings.authenticates { noteProved(incoming.flow) }
        let fields = bindings.okFields(for: plan, date: dateField.field(at: now.date), now: now)
        if let server = incoming.server {
            respond(server, .ok, incoming.response(.ok, toTag: newTag(), fields: fields), now: now)
            settle(now: now)
        }
        for device in plan.removed { deviceRemoved(device, of: aor, now: now) }
        for device in plan.refreshed {
            if !called.isEmpty { deviceReturned(device, now: now) }
            reportMissedCalls(to: device, of: aor, now: now)
            // A phone that was reported with its token, and registers without: nobody else knows which of the two it is.
            if !bindings.isPush(device) { reportedReturned(as: device, of: aor, now: now) }
        }
    }

    /// Says in the log what a REGISTER changed; a plain refresh is silent but for debugging.
    private func note(_ plan: RegisterPlan, for aor: AddressOfRecord, on flow: Flow) {
        guard log.isEnabled(.info) else { return }
        if plan.facts.isEmpty {
            log.debug("refreshed", [.aor: .described(aor), .source: .described(flow.remote)])
        }
        for fact in plan.facts {
            let story: LogValue = .text("\(fact)")
            log.info(
                "registration", [.aor: .described(aor), .source: .described(flow.remote), .outcome: story])
        }
    }

    /// Drops ordinary bindings whose time is over.
    func removeExpiredBindings(now: Moment) {
        let ended = bindings.removeExpired(limit: Self.expiryBatch, now: now.instant)
        guard !ended.isEmpty else { return }
        act(.record(ended.map { .binding(.delete($0.id)) }))
        for binding in ended { deviceRemoved(binding.id, of: binding.aor, now: now) }
    }

    /// Looked at in one go, so that a crowd that expires together does not hold up calls.
    private static let expiryBatch = 500

    /// Expiry, CSeq and Call-ID of a refresh: a restart could lose them without harm, so they are written late, each
    /// binding once however often it was refreshed meanwhile.
    private func noteBookkeeping(of plan: RegisterPlan, now: Moment) {
        guard !plan.bookkeeping.isEmpty else { return }
        if refreshedLately.isEmpty { _ = timers.schedule(.bookkeepingDue, at: now.instant + Self.bookkeepingDelay) }
        for id in plan.bookkeeping { refreshedLately.insert(id) }
    }

    /// Writes some of what was refreshed; the rest has its turn soon, so that calls do not wait behind it.
    func bookkeepingDue(now: Moment) {
        let ids = refreshedLately.prefix(Self.bookkeepingBatch)
        act(.recordLate(ids.compactMap { bindings.stored($0, now: now) }.map { .binding(.upsert($0)) }))
        refreshedLately.subtract(ids)
        if !refreshedLately.isEmpty { _ = timers.schedule(.bookkeepingDue, at: now.instant + Self.bookkeepingPause) }
    }

    private static let bookkeepingDelay: Duration = .seconds(10)
    private static let bookkeepingPause: Duration = .milliseconds(50)
    private static let bookkeepingBatch = 200

    static func retryAfter(seconds: Int) -> AddedField { AddedField("Retry-After", ByteString("\(seconds)")) }
}
