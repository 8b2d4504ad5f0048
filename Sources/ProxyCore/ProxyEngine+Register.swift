import Addressing
import Bytes
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
            refuseRegister(incoming, of: nil, .notFound, because: "no user of ours", now: now)
            return
        }
        guard request.path.isEmpty || incoming.isTrusted else {
            refusePath(incoming, for: aor, now: now)
            return
        }
        guard authenticateRegister(incoming, for: aor, now: now), let incoming = begun(incoming, now: now) else {
            return
        }
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
        switch checkCredentials(of: incoming, as: .registrar, home: aor.host, owner: aor.user, now: now) {
        case .authenticated: return true
        case .forbidden:
            refuseRegister(incoming, of: aor, .forbidden, because: "the password is another user's", now: now)
        case .limited(let wait):
            refuseRegister(
                incoming, of: aor, .serviceUnavailable, fields: [Self.retryAfter(wait)],
                because: "too many wrong passwords", now: now)
        case .challenge(let reason):
            noteChallenge(incoming, of: aor, reason, now: now)
            challenge(incoming, reason, as: .registrar, home: aor.host, now: now)
        }
        return false
    }

    /// A Path says where requests are sent: that is an edge's word, and not a phone's (T9.3).
    private func refusePath(_ incoming: IncomingRequest, for aor: AddressOfRecord, now: Moment) {
        var warning = Array("399 ".utf8)
        warning.append(aor.host)
        warning.append(" \"Path from an address that is not trusted\"")
        refuseRegister(
            incoming, of: aor, .forbidden, fields: [AddedField("Warning", ByteString(warning))],
            because: "its Path is not of a trusted address", now: now)
    }

    /// A REGISTER without credentials is everyday life of a phone that is registered. Of one that is not, the line tells
    /// that it was asked for its password, should it never answer.
    private func noteChallenge(
        _ incoming: IncomingRequest, of aor: AddressOfRecord, _ reason: DigestAuthenticator.Reason, now: Moment
    ) {
        switch reason {
        case .wrong:
            noteRefusal(
                incoming, of: aor, .unauthorized, because: "wrong user or password", within: &refusedRegisters, now: now
            )
        case .nothingShown where !bindings.isKnown(aor):
            noteRefusal(
                incoming, of: aor, .unauthorized, because: "no password was shown yet", within: &challengedRegisters,
                now: now)
        case .nothingShown, .stale: break
        }
    }

    /// Refuses a REGISTER and says so in the log.
    private func refuseRegister(
        _ incoming: IncomingRequest, of aor: AddressOfRecord?, _ status: Status, fields: [AddedField] = [],
        because reason: StaticString, now: Moment
    ) {
        counters.count(.registerRefused)
        noteRefusal(incoming, of: aor, status, because: reason, within: &refusedRegisters, now: now)
        refuse(incoming, status, fields: fields, now: now)
    }

    /// One line for each, but not more than so many: anybody can cause them.
    private func noteRefusal(
        _ incoming: IncomingRequest, of aor: AddressOfRecord?, _ status: Status, because reason: StaticString,
        within limit: inout LogRateLimit, now: Moment
    ) {
        guard log.isEnabled(.info), let suppressed = limit.admit(now: now.instant) else { return }
        log.info(
            "REGISTER refused",
            [
                .aor: aor.map { .described($0) } ?? .bytes(incoming.request.to.uri.text),
                .source: .described(incoming.flow.remote), .status: .number(Int(status.code)),
                .reason: .text("\(reason)"), .suppressed: .number(suppressed),
            ])
    }

    /// The shell keeps streams that prove themselves. It may hear so again, which costs less than remembering.
    func noteProved(_ flow: Flow, by user: AddressOfRecord? = nil) {
        if flow.connection != 0 { act(.flowProved(flow, account: user?.hashValue)) }
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
            refuseRegister(
                incoming, of: nil, .serviceUnavailable, fields: [Self.retryAfter(seconds: seconds)],
                because: "too many at once, or the disk takes no changes", now: now)
        case .report(_, let ticket), .removal(_, let ticket): act(.reported(ticket, .unavailable))
        }
    }

    private func planRegister(_ incoming: IncomingRequest, for aor: AddressOfRecord, now: Moment) {
        let decision = registrar.plan(incoming.request, for: aor, on: incoming.flow, in: bindings, now: now)
        if !called.isEmpty, case .accepted(let plan) = decision { traceRegistered(plan.refreshed, now: now) }
        switch decision {
        case .rejected(let status, let fields):
            refuseRegister(incoming, of: aor, status, fields: fields, because: Self.reason(status), now: now)
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
        act(.commit(plan.persist.map(EngineChange.binding), ticket))
    }

    /// The store committed the changes of a ticket, or could not.
    package func committed(_ ticket: CommitTicket, succeeded: Bool, now: Moment) {
        guard let aor = commits.removeValue(forKey: ticket), let queue = registersInFlight.removeValue(forKey: aor)
        else { return }
        if succeeded {
            complete(queue.current, queue.plan, for: aor, now: now)
        } else {
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
            if !called.isEmpty || !endedCalls.isEmpty { deviceReturned(device, now: now) }
            if !hearsFarewell(device) { reportMissedCalls(to: device, of: aor, now: now) }
            // A phone that was reported with its token, and registers without: nobody else knows which of the two it is.
            if !bindings.isPush(device) { reportedReturned(as: device, of: aor, now: now) }
        }
    }

    /// What the registrar means by a status.
    private static func reason(_ status: Status) -> StaticString {
        switch status {
        case .forbidden: "more contacts than max-contacts, or a contact that may not be"
        case 423: "it expires too soon"
        case 555: "its push provider is not served here"
        case 420: "it requires what is not known here"
        default: "it is not well-formed, or older than the last one"
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
        act(.refresh(ids.compactMap { bindings.stored($0, now: now) }))
        refreshedLately.subtract(ids)
        if !refreshedLately.isEmpty { _ = timers.schedule(.bookkeepingDue, at: now.instant + Self.bookkeepingPause) }
    }

    private static let bookkeepingDelay: Duration = .seconds(10)
    private static let bookkeepingPause: Duration = .milliseconds(50)
    private static let bookkeepingBatch = 200
}
