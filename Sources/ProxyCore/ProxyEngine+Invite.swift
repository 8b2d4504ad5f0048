package import Addressing
import Bytes
import PushDelivery
package import Registration
import SIPGrammar
import SIPTransactions
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
        guard let incoming = begun(incoming, now: now) else { return }
        let fork = makeFork(
            incoming, branches: [ForkBranch(state: .sleeping, device: nil)], call: nil, accounts: [.caller(sender)])
        sendTrying(incoming, now: now)
        var edits = RequestEdits(requestURI: next.requestURI.text, via: .empty, maxForwards: 70)
        // A phone's own Route would lead the request past the PBX (T9.5).
        edits.routes = []
        if case .user(let aor) = sender {
            edits.added = [AddedField("P-Asserted-Identity", aor.assertedIdentity)]
        }
        send(incoming, edits, fork: fork, branch: 0, to: upstream, now: now)
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
            traceRefused(incoming, to: aor, .unknownUser, .notFound, now: now)
            refuse(incoming, .notFound, now: now)
            return
        }
        let contacts = bindings.forkTargets(for: aor, now: now.instant)
        // Nothing is delivered to a `sips:` contact as long as no hop is protected (T9.9).
        let targets = contacts.filter { !$0.isSecure }
        guard !targets.isEmpty else {
            traceRefused(incoming, to: aor, .noContact, .temporarilyUnavailable, now: now)
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
        bindings.isKnown(aor) || !settings.authenticates && bindings.wasKnown(aor)
            || users.user(named: aor.user, realm: digest.realm(for: aor.host)) != nil
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
        guard let incoming = begun(incoming, now: now) else { return }
        let branches = reachable.map { ForkBranch(state: .sleeping, device: $0.id) }
        let fork = makeFork(incoming, branches: branches, call: nil, accounts: accounts(sender, aor.compacted()))
        sendTrying(incoming, now: now)
        for (index, target) in reachable.enumerated() {
            send(incoming, to: target, fork: fork, branch: index, now: now)
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
        guard offers[key] == nil else {
            // The same call by another way (RFC 3261 section 8.2.2.2): its devices are being called already.
            refuse(incoming, .loopDetected, now: now)
            return
        }
        guard offers.count < settings.limits.calls else {
            traceRefused(incoming, to: aor, .tooManyCalls, .serviceUnavailable, now: now)
            refuse(incoming, .serviceUnavailable, fields: [Self.retryAfter(seconds: 5)], now: now)
            return
        }
        guard admits(incoming, from: sender, to: aor, now: now) else { return }
        guard let incoming = begun(incoming, now: now) else { return }
        sendTrying(incoming, now: now)
        let holdTime = holdTime(of: request)
        var call = OfferedCall(
            aor: aor, ref: CallRef(rawValue: functions.random()), key: key, receivedAt: now.date,
            pushDeadline: now.date + holdTime, holdUntil: now.instant + holdTime)
        let branches = targets.map { ForkBranch(state: .sleeping, device: $0.id) }
        let fork = makeFork(incoming, branches: branches, call: call, accounts: accounts(sender, aor))
        offers[key] = fork
        counters.count(.call)
        log.info(
            "call offered",
            [
                .aor: .described(aor), .callID: .bytes(request.callID), .caller: .bytes(request.from.uri.text),
                .count: .number(targets.count),
            ])

        let caller = CallerIdentity(request, format: settings.call.callerIDFormat)
        let treatments = targets.map { treatment(of: $0, now: now) }
        let woken = zip(targets, treatments).filter { $0.1 != .ring }.map { $0.0.id }
        call.mayPush = woken.isEmpty || admitsPushes(of: sender, from: incoming, now: now)
        forks[fork]?.call?.mayPush = call.mayPush
        if !woken.isEmpty {
            counters.count(.missedCallStored)
            tellBucket(of: aor) { bucket, settings in
                bucket.callOffered(
                    call.ref, caller: caller.remoteURI, at: now.date, devices: woken, settings: settings)
            }
        }
        for (index, target) in targets.enumerated() {
            guard let context = forks[fork] else { return }
            list(index, of: fork, context)
            if treatments[index] == .ring {
                let why = target.pushToken == nil ? .ordinaryContact : TimelineRecord.Omission.justRegistered
                traceBegan(call, target, why, fork: fork, branch: index, now: now)
            } else if let token = target.pushToken, call.mayPush {
                push(token, to: target, call, caller, fork: fork, branch: index, now: now)
            } else {
                traceBegan(call, target, .callerLimit, fork: fork, branch: index, now: now)
            }
            if treatments[index] != .ring { watch(target) }
            if treatments[index] == .wake {
                armHold(of: fork, context, now: now)
            } else {
                send(incoming, to: target, fork: fork, branch: index, now: now)
            }
        }
    }

    /// Whether this caller may wake anybody now (T11.2). The PBX answers for its callers itself.
    private func admitsPushes(of sender: Sender, from incoming: IncomingRequest, now: Moment) -> Bool {
        guard settings.call.pushesPerCaller > 0, sender != .peer else { return true }
        guard !callerLimit.admit(sender, now: now.instant) else { return true }
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
            let share = shares[account]
            return isInvite && share.calls >= settings.limits.accountCalls
                || share.bytes + size > settings.limits.accountBytes
        }
        makeRoom(for: size)
        let status: Status
        if shares.bytes + size > settings.limits.heldBytes || sender != .peer && isFull(.caller(sender)) {
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
        if let callee { traceRefused(incoming, to: callee, .tooManyCalls, status, now: now) }
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

    func makeFork(
        _ incoming: IncomingRequest, branches: [ForkBranch], call: OfferedCall?, accounts: [HeldShares.Account] = []
    ) -> ForkID {
        let id = ForkID(nextNumber())
        guard let server = incoming.server else { return id }
        let isInvite = incoming.request.method == .invite
        let context = ForkContext(
            fork: Fork(isInvite: isInvite, branches: branches), server: server, source: incoming.flow,
            request: incoming.request.frame.bytes.compacted(), call: call, accounts: accounts)
        shares.take(context.share, for: accounts)
        context.breadth = max(1, Breadth.share(of: incoming.request, among: branches.count))
        context.sender = incoming.sender?.compacted()
        forks[id] = context
        forkOfServer[server] = id
        return id
    }
}
