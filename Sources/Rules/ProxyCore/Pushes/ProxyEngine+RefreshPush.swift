import Addressing
import Bytes
import LocationService
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import Telemetry
import Timekeeping

/// Sends pushes that make phones refresh their contacts (RFC 8599 section 5.5), if `registrar.refresh-push` is set.
///
/// The search for expiring contacts takes one step a second, and visits all bindings within a minute. No binding needs
/// a timer, and phones that registered together are woken one after the other. ``RefreshPushes`` plans the second and
/// third pushes.
extension ProxyEngine {
    private static let scanTime = 60
    private static let scanPause: Duration = .seconds(1)

    /// Schedules the next step of the search for contacts that expire soon, if `registrar.refresh-push` is set.
    func armRefreshPushes(now: Moment) {
        guard settings.registrar.refreshPushLead > .zero, registrar.scanStarts() else { return }
        _ = output.timers.schedule(.refreshScanDue, at: now.instant + Self.scanPause)
    }

    func refreshScanDue(now: Moment) {
        registrar.scanPaused()
        let lead = settings.registrar.refreshPushLead
        guard lead > .zero else { return }
        var due: [RefreshPushes.Contact] = []
        for binding in registrar.scanned(steps: Self.scanTime, lead: lead, now: now.instant) {
            guard let grant = registrar.bindings.grant(of: binding) else { continue }
            let contact = RefreshPushes.Contact(binding, until: grant.until)
            let care = careForRefresh(of: binding)
            guard care.isOurs else {
                registrar.bindings.forgetRefreshPush(to: binding)
                continue
            }
            if ledger.refreshes.found(contact, lead: lead, since: care.since, now: now.instant) { due.append(contact) }
        }
        while let contact = ledger.refreshes.nextDue(now: now.instant) { due.append(contact) }
        if network.flows.haveNodes {
            readBeforeRefresh(due)
        } else {
            for contact in due { refreshDue(contact, now: now) }
        }
        armRefreshPushes(now: now)
    }

    // MARK: Several nodes

    /// Whether this node sends the refresh pushes to a contact, and since when.
    private func careForRefresh(of binding: DeviceID) -> (isOurs: Bool, since: Instant) {
        guard network.flows.haveNodes, let path = registrar.bindings.binding(binding)?.path, !path.isEmpty else {
            return (true, .distantPast)
        }
        return (caresFor(path), network.flows.hasLostNode(path) ? network.duties.since : .distantPast)
    }

    /// Reads the users of contacts that are due, because the phones may have registered at other nodes.
    private func readBeforeRefresh(_ contacts: [RefreshPushes.Contact]) {
        for start in stride(from: 0, to: contacts.count, by: Self.adoptedTogether) {
            let part = Array(contacts[start..<min(start + Self.adoptedTogether, contacts.count)])
            let users = Set(part.compactMap { registrar.bindings.aor(of: $0.binding) })
            guard !users.isEmpty else { continue }
            let work = UserReads.Work.refreshes(part)
            if case .asks(let question) = registrar.reads.hold(work, concerning: users.map { .user($0) }) {
                act(.readUsers(question, waiting: nil))
            }
        }
    }

    /// Goes on with contacts that are due, after the store has answered about their users; `nil` means that the store did
    /// not answer. Then no phone can register, so the contacts are due again later.
    func refreshesRead(_ contacts: [RefreshPushes.Contact], _ answer: StoredUsers?, now: Moment) {
        var keepers: [DeviceID: Nodes.Keeper] = [:]
        for row in (answer?.users ?? []).flatMap(\.bindings) {
            keepers[row.id] = network.flows.nodes?.keeper(of: row)
        }
        for contact in contacts {
            guard let aor = registrar.bindings.aor(of: contact.binding) else { continue }
            guard answer != nil, !registrar.isChanging(aor) else {
                ledger.refreshes.postpone(contact, now: now.instant)
                continue
            }
            switch keepers[contact.binding] {
            case nil: break  // The contact was removed.
            case .own?: refreshDue(contact, now: now)
            case .nobody? where network.duties.isHeld: refreshDue(contact, now: now)
            case .nobody?, .peer?: registrar.bindings.forgetRefreshPush(to: contact.binding)
            }
        }
    }

    // MARK: Pushes

    /// Handles a contact whose next refresh push or whose expiry has come.
    private func refreshDue(_ contact: RefreshPushes.Contact, now: Moment) {
        // The contact was removed, because the phone signed out or its push token is dead.
        guard let grant = registrar.bindings.grant(of: contact.binding) else { return }
        guard grant.until == contact.expiry else {
            let tries = ledger.refreshes.came(contact)
            if let counter = Counter.cameAfterRefresh(tries) { output.counters.count(counter) }
            return
        }
        guard grant.until > now.instant else {
            if ledger.refreshes.expired(contact) { output.counters.count(.refreshNever) }
            return
        }
        askToRefresh(contact, granted: grant.seconds, now: now)
    }

    private func askToRefresh(_ contact: RefreshPushes.Contact, granted: UInt32, now: Moment) {
        let device = registrar.bindings.device(of: contact.binding)
        // The node with the phone's flow sends the push.
        guard
            let target = registrar.bindings.forkTarget(device, through: contact.binding, now: now.instant),
            !network.flows.isAtOtherNode(target.path),
            let token = target.pushToken, let aor = registrar.bindings.binding(contact.binding)?.aor,
            let id = ledger.dispatcher.directory.app(for: token), let app = ledger.dispatcher.directory[id]
        else { return }
        guard !ledger.isPaused(token.provider), mayNotify(device, for: nil, now: now) else {
            return holdBack(contact, of: app, isByRate: false, now: now)
        }
        guard ledger.refreshes.admits(contact, of: id, now: now.instant) else {
            return holdBack(contact, of: app, isByRate: true, now: now)
        }
        ledger.notified(device, for: nil, now: now.instant)
        output.counters.count(.refreshPush)
        if let counter = Counter.repeatedRefresh(contact.tries + 1) { output.counters.count(counter) }
        log.debug(
            "the daemon sends a push, so that the phone refreshes its registration",
            [.aor: .described(aor), .device: .described(device), .attempt: .number(contact.tries + 1)])
        let end = ledger.refreshes.sent(
            contact, of: id, allowed: app.refreshPushes(within: granted), now: now.instant)
        // The push is useless when the next refresh push is sent, so it expires then.
        var notification = PushNotification(expiresAt: now.date + (end - now.instant))
        notification.isSilent = true
        notification.destinationType = ByteString("registration")
        notify(notification, ledger.newCode(), by: token, target, of: aor, now: now)
    }

    private func holdBack(_ contact: RefreshPushes.Contact, of app: PushApp, isByRate: Bool, now: Moment) {
        if ledger.refreshes.heldBack(contact, of: app.id, now: now.instant) {
            output.counters.count(.refreshHeldBack)
        }
        guard isByRate, ledger.refreshes.tellsOfHeldBack(app.id, now: now.instant) else { return }
        log.warning(
            "refresh pushes are held back, because the app has reached its limit of refresh pushes",
            [
                .provider: .text(app.name), .setting: "registrar.refresh-push-rate",
                .advice:
                    "Phones register again less often with a longer registrar.default-expires; or raise the limit, if the provider tolerates more pushes.",
            ])
    }
}

extension Counter {
    /// The metric of second and third refresh pushes.
    fileprivate static func repeatedRefresh(_ attempt: Int) -> Counter? {
        switch attempt {
        case 2: .refreshSecond
        case 3: .refreshThird
        default: nil
        }
    }

    /// The metric that counts phones that registered after this number of refresh pushes.
    fileprivate static func cameAfterRefresh(_ tries: Int) -> Counter? {
        switch tries {
        case 1: .refreshCameFirst
        case 2: .refreshCameSecond
        case 3: .refreshCameThird
        default: nil
        }
    }
}
