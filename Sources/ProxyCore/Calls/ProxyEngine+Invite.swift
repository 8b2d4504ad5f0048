package import Addressing
import Bytes
import PushDelivery
package import Registration
import SIPGrammar
import Telemetry
import Timekeeping

extension ProxyEngine {
    /// A request outside any dialog that passed through here: who sent it decides where it may go.
    func initialRequestReceived(_ incoming: IncomingRequest, _ next: RouteSet.Next, now: Moment) {
        let request = incoming.request
        let home = identity.home(of: next.requestURI)
        guard home != nil || next.requestURI.scheme == .tel else {
            refuse(incoming, .forbidden, now: now)
            return
        }
        if request.to.tag != nil {
            // Inside a dialog, but not one that was made through here.
            refuse(incoming, .callDoesNotExist, now: now)
            return
        }
        if incoming.isTrusted {
            // Its Route is followed, and no hop is protected (T9.9).
            guard !next.isSecure else {
                refuse(incoming, .temporarilyUnavailable, fields: [sipsNotAllowed], now: now)
                return
            }
            deliverToUser(incoming, next, home: home, sender: .peer, now: now)
            return
        }
        guard let sender = authenticateSender(incoming, now: now) else { return }
        var incoming = incoming
        if case .user(let aor) = sender { incoming.sender = aor }
        if let upstream = settings.upstream {
            sendUpstream(incoming, next, to: upstream, sender: sender, now: now)
        } else {
            deliverToUser(incoming, next, home: home, sender: sender, now: now)
        }
    }

    /// The PBX, by its address.
    package func isTrusted(_ source: Endpoint) -> Bool { settings.trusted.contains { $0.matches(source) } }

    /// The identity behind a request from an address that is not trusted; `nil` when it was answered (407, 403).
    private func authenticateSender(_ incoming: IncomingRequest, now: Moment) -> Sender? {
        guard settings.authenticates else { return .unknown(at: incoming.flow.remote) }
        let from = incoming.request.from.uri
        guard let home = identity.home(of: from) ?? preferredHome(incoming) ?? identity.domains.first else {
            return nil
        }
        switch checkCredentials(of: incoming, as: .proxy, home: home, owner: nil, now: now) {
        case .authenticated(let user), .forbidden(let user):
            // From is never an identity by itself (T9.6): it must be the one that was proved, or say nothing.
            let proved = AddressOfRecord(user: user.name, host: home)
            if from.host.equalsIgnoringCase("anonymous.invalid") { return .user(proved) }
            if identity.home(of: from) != nil, AddressOfRecord(from, home: home) == proved { return .user(proved) }
            log.info(
                "request refused: From is another user's",
                [
                    .aor: .described(proved), .caller: .bytes(from.text),
                    .source: .described(incoming.flow.remote), .status: .number(403),
                ])
            refuse(incoming, .forbidden, now: now)
        case .limited(let wait):
            refuse(incoming, .serviceUnavailable, fields: [Self.retryAfter(wait)], now: now)
        case .challenge(let reason): challenge(incoming, reason, as: .proxy, home: home, now: now)
        }
        return nil
    }

    /// Where an anonymous caller is at home, by its P-Preferred-Identity (RFC 3325 section 6): with several domains
    /// nothing else says whose password to ask for.
    private func preferredHome(_ incoming: IncomingRequest) -> ByteString? {
        guard identity.domains.count > 1,
            let value = incoming.request.frame.firstValue(of: .pPreferredIdentity),
            let aor = CallerIdentity.uri(of: value).flatMap({ AddressOfRecord(uriText: $0) }),
            identity.isDomain(aor.host)
        else { return nil }
        return aor.host
    }

    // MARK: To the PBX

    private func sendUpstream(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, to upstream: NextHop, sender: Sender, now: Moment
    ) {
        guard Breadth.share(of: incoming.request, among: 1) > 0 else {
            refuse(incoming, .maxBreadthExceeded, now: now)
            return
        }
        guard admits(incoming, from: sender, to: nil, now: now) else { return }
        guard let (incoming, call) = proxied(incoming, to: [nil], accounts: [.caller(sender)], now: now) else { return }
        sendTrying(incoming, now: now)
        var edits = RequestEdits(requestURI: next.requestURI.text, via: .empty, maxForwards: 70)
        // A phone's own Route would lead the request past the PBX (T9.5).
        edits.routes = []
        if case .user(let aor) = sender {
            edits.added = [AddedField("P-Asserted-Identity", aor.assertedIdentity)]
        }
        send(incoming, edits, for: 0, of: call, to: upstream, now: now)
    }

    // MARK: To our users

    private func deliverToUser(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, home: ByteString?, sender: Sender, now: Moment
    ) {
        guard let home = home ?? identity.domains.first,
            let aor = AddressOfRecord(next.requestURI, home: home)
        else {
            refuse(incoming, .notFound, now: now)
            return
        }
        guard isKnown(aor) else {
            ledger.refused(incoming.request, to: aor, .unknownUser, .notFound, now: now, into: &actions)
            refuse(incoming, .notFound, now: now)
            return
        }
        let contacts = registrar.bindings.forkTargets(for: aor, now: now.instant)
        // Nothing is delivered to a `sips:` contact as long as no hop is protected (T9.9).
        let targets = contacts.filter { !$0.isSecure }
        guard !targets.isEmpty else {
            ledger.refused(
                incoming.request, to: aor, .noContact, .temporarilyUnavailable, now: now, into: &actions)
            refuse(
                incoming, .temporarilyUnavailable, fields: contacts.isEmpty ? [] : [sipsNotAllowed], now: now)
            return
        }
        guard Breadth.share(of: incoming.request, among: targets.count) > 0 else {
            refuse(incoming, .maxBreadthExceeded, now: now)
            return
        }
        if incoming.request.method == .invite {
            offer(incoming, next, to: aor, targets, sender: sender, now: now)
        } else {
            forkAtOnce(incoming, next, to: aor, targets, sender: sender, now: now)
        }
    }

    /// The user has a contact or a password; where nobody has one, had a contact.
    package func isKnown(_ aor: AddressOfRecord) -> Bool {
        registrar.bindings.isKnown(aor) || !settings.authenticates && registrar.bindings.wasKnown(aor)
            || registrar.users.user(named: aor.user, realm: digest.realm(for: aor.host)) != nil
    }

    /// Requests other than INVITE go to whoever can be reached now; nothing is held for them.
    private func forkAtOnce(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, to aor: AddressOfRecord, _ targets: [ForkTarget],
        sender: Sender, now: Moment
    ) {
        // A trusted peer's further Route is followed whether the phone's own flow is there or not.
        let goesFurther = furtherRoute(of: incoming) != nil
        let reachable = targets.filter { $0.isFresh && (goesFurther || isAwake($0)) }
        guard !reachable.isEmpty else {
            refuse(incoming, .temporarilyUnavailable, now: now)
            return
        }
        guard admits(incoming, from: sender, to: aor, now: now) else { return }
        guard
            let (incoming, call) = proxied(
                incoming, to: reachable.map(\.id), accounts: accounts(sender, aor.compacted()), now: now)
        else { return }
        sendTrying(incoming, now: now)
        for (index, target) in reachable.enumerated() {
            send(incoming, for: index, of: call, to: target, now: now)
        }
    }

    /// An INVITE for one of our users: ordinary contacts ring at once, sleeping ones are pushed and waited for (R11-R18).
    private func offer(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, to aor: AddressOfRecord, _ targets: [ForkTarget],
        sender: Sender, now: Moment
    ) {
        let request = incoming.request
        // What is kept of a call must not keep the whole message.
        let aor = aor.compacted()
        let key = OfferKey(
            aor: aor, callID: request.callID.compacted(), fromTag: (request.from.tag ?? .empty).compacted())
        guard !calls.isOffered(key) else {
            // The same call by another way (RFC 3261 section 8.2.2.2): its devices are being called already.
            refuse(incoming, .loopDetected, now: now)
            return
        }
        guard calls.offered < settings.limits.calls else {
            ledger.refused(
                incoming.request, to: aor, .tooManyCalls, .serviceUnavailable, now: now, into: &actions)
            refuse(incoming, .serviceUnavailable, fields: [Self.retryAfter(seconds: 5)], now: now)
            return
        }
        guard admits(incoming, from: sender, to: aor, now: now) else { return }
        guard let incoming = begun(incoming, now: now), let server = incoming.server else { return }
        sendTrying(incoming, now: now)
        let treatments = targets.map { treatment(of: $0, now: now) }
        let woken = zip(targets, treatments).filter { $0.1 != .ring }.map { $0.0.id }
        let holdTime = holdTime(of: request)
        let offer = Offer(
            aor: aor, ref: CallRef(rawValue: functions.random()), key: key, receivedAt: now.date,
            pushDeadline: now.date + holdTime, holdUntil: now.instant + holdTime,
            mayPush: woken.isEmpty || admitsPushes(of: sender, from: incoming, now: now))
        let call = calls.begin(
            incoming, server, branches: targets.map { ForkBranch(device: $0.id) }, offer: offer,
            accounts: accounts(sender, aor))
        counters.count(.call)
        log.info(
            "call offered",
            [
                .aor: .described(aor), .callID: .bytes(request.callID), .caller: .bytes(request.from.uri.text),
                .count: .number(targets.count),
            ])

        let caller = CallerIdentity(request, format: settings.call.callerIDFormat)
        if !woken.isEmpty {
            counters.count(.missedCallStored)
            ledger.callOffered(offer, from: caller, at: now.date, to: woken, into: &actions)
        }
        for (index, target) in targets.enumerated() {
            self.offer(
                offer, to: target, treatments[index], branch: index, of: call, incoming, caller, now: now)
        }
    }

    /// One device gets the INVITE, or a push, or both.
    private func offer(
        _ offer: Offer, to target: ForkTarget, _ treatment: Treatment, branch: Int, of call: Call,
        _ incoming: IncomingRequest, _ caller: CallerIdentity, now: Moment
    ) {
        guard !call.isForgotten else { return }
        calls.list(branch, of: call)
        if treatment != .ring, offer.mayPush, let token = target.pushToken {
            ledger.wake(target, token, for: branch, of: call, offer, caller, now: now, into: &actions)
        } else {
            let (omission, app) = omission(of: target, treatment)
            ledger.began(branch, of: call, offer, target.id, omission, app: app, now: now)
        }
        if treatment != .ring { watch(target) }
        if treatment == .wake {
            call.fork.waits(branch)
            armHold(of: call, now: now)
        } else {
            send(incoming, for: branch, of: call, to: target, now: now)
        }
    }

    /// Why no push is sent, and the provider that would carry it.
    private func omission(
        of target: ForkTarget, _ treatment: Treatment
    ) -> (TimelineRecord.Omission, app: String) {
        if let token = target.pushToken {
            return (treatment == .ring ? .justRegistered : .callerLimit, token.provider.rawValue)
        }
        guard ledger.timeline.isOn, let provider = registrar.bindings.switchedOffProvider(of: target.id) else {
            return (.ordinaryContact, "")
        }
        return (.providerOff, provider.rawValue)
    }

    /// Whether this caller may wake anybody now (T11.2). The PBX answers for its callers itself.
    private func admitsPushes(of sender: Sender, from incoming: IncomingRequest, now: Moment) -> Bool {
        guard settings.call.pushesPerCaller > 0, sender != .peer else { return true }
        guard !ledger.limits.caller.admit(sender, now: now.instant) else { return true }
        log.warning(
            "caller makes too many calls, nobody is woken",
            [.caller: .bytes(incoming.request.from.uri.text), .source: .described(incoming.flow.remote)])
        return false
    }

    /// Whether there is room for a request that waits for its answer, in all and in the share of its accounts (T11.3);
    /// when not, it has been answered. The caller who holds too much hears of it as of a proxy that is full; whoever calls
    /// a user who is called too much, that he is busy: a PBX would take 503 for a proxy to go round.
    private func admits(_ incoming: IncomingRequest, from sender: Sender, to callee: AddressOfRecord?, now: Moment)
        -> Bool
    {
        let isInvite = incoming.request.method == .invite
        let size = incoming.request.frame.bytes.count
        func isFull(_ account: HeldShares.Account) -> Bool {
            let share = calls.shares[account]
            return isInvite && share.calls >= settings.limits.accountCalls
                || share.bytes + size > settings.limits.accountBytes
        }
        makeRoom(for: size)
        let status: Status
        if calls.shares.bytes + size > settings.limits.heldBytes || sender != .peer && isFull(.caller(sender)) {
            status = .serviceUnavailable
        } else if let callee, isFull(.callee(callee)) {
            status = isInvite ? .busyHere : .temporarilyUnavailable
        } else {
            return true
        }
        log.warning(
            "too much is held, a request is refused",
            [
                .status: .number(Int(status.code)), .caller: .bytes(incoming.request.from.uri.text),
                .source: .described(incoming.flow.remote),
            ])
        if let callee {
            ledger.refused(incoming.request, to: callee, .tooManyCalls, status, now: now, into: &actions)
        }
        let fields = status == .serviceUnavailable ? [Self.retryAfter(seconds: 5)] : []
        refuse(incoming, status, fields: fields, now: now)
        return false
    }

    private func accounts(_ sender: Sender, _ callee: AddressOfRecord) -> [HeldShares.Account] {
        sender == .peer ? [.callee(callee)] : [.callee(callee), .caller(sender)]
    }

    /// What a contact gets of an INVITE at once.
    private enum Treatment {
        /// The INVITE.
        case ring
        /// A push; the INVITE waits.
        case wake
        /// Both, and whichever reaches the phone first counts.
        case ringAndWake
    }

    /// A push contact is woken, unless it has just been here (reading A9).
    private func treatment(of target: ForkTarget, now: Moment) -> Treatment {
        guard target.pushToken != nil else { return .ring }
        guard isAwake(target) else { return .wake }
        if now.date - target.registeredAt < settings.call.skipPushWithin { return .ring }
        return isLive(target, now: now) ? .ringAndWake : .wake
    }

    private func isLive(_ target: ForkTarget, now: Moment) -> Bool {
        guard let life else { return false }
        return now.date - target.registeredAt < settings.call.ringLiveFlowWithin
            || life.wasAlive(target.flow, now: now.instant)
    }

    // MARK: Common

    /// Begins to keep a request that is going to be sent on, with a transaction of its own; `nil` when there is no room for
    /// one: it was answered then.
    func proxied(
        _ incoming: IncomingRequest, to devices: [DeviceID?], accounts: [HeldShares.Account] = [], now: Moment
    ) -> (IncomingRequest, Call)? {
        guard let incoming = begun(incoming, now: now), let server = incoming.server else { return nil }
        return (incoming, calls.begin(incoming, server, branches: devices.map(ForkBranch.init), accounts: accounts))
    }
}
