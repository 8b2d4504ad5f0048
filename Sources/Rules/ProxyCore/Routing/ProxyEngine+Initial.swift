import AccessLimits
import Addressing
import Bytes
import Calling
import Collections
import LocationService
import ProxyPolicy
import PushDelivery
package import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Routes requests outside dialogs, differently for trusted and untrusted senders.
extension ProxyEngine {
    /// Handles a request that belongs to no dialog of this daemon.
    func initialRequestReceived(_ incoming: IncomingRequest, _ next: RouteSet.Next, now: Moment) {
        let request = incoming.request
        let destination = destination(next.requestURI, of: incoming)
        guard destination.home != nil || next.requestURI.scheme == .tel else {
            refuse(incoming, .forbidden, because: .foreignDomain, now: now)
            return
        }
        if request.to.tag != nil {
            // A request inside a dialog that did not begin through this daemon gets 481.
            refuse(incoming, .callDoesNotExist, now: now)
            return
        }
        if destination.isByToken, request.method == .options {
            // An OPTIONS by which a PBX checks a contact gets 200 from the daemon, so that the check wakes no phone.
            refuse(incoming, .ok, fields: Self.capabilities, now: now)
            return
        }
        if let breach = RequestRules.outsideDialogs(request.method, fromTrusted: incoming.isTrusted) {
            return refuse(incoming, by: breach, now: now)
        }
        guard !access.admission.isDraining || request.method != .invite else {
            refuse(
                incoming, .serviceUnavailable, because: .draining, fields: [Self.retryAfter(seconds: 5)], now: now)
            return
        }
        if incoming.isTrusted {
            // A daemon without TLS refuses a trusted peer's `sips:` request that came without TLS, because the next hop
            // would have no TLS either (T9.9).
            guard !next.isSecure || identity.hasTLS || incoming.flow.transport.isSecure else {
                refuse(incoming, .temporarilyUnavailable, because: .notSecure, fields: [sipsNotAllowed], now: now)
                return
            }
            guard isTrusted(incoming, for: destination.home ?? identity.domains.first) else {
                return refuse(incoming, .forbidden, because: .otherTenant, now: now)
            }
            let caller = Caller(of: request, on: incoming.flow, isTrusted: true)
            deliverToUser(withoutTokens(incoming), next, destination, caller: caller, now: now)
            return
        }
        if let number = pbx(ofCaller: incoming) { return sendToPBX(incoming, next, number, now: now) }
        var incoming = incoming
        guard let caller = authenticateSender(&incoming, now: now) else { return }
        incoming = withoutTokens(incoming)
        let domain = incoming.sender?.host ?? senderDomain(incoming)
        if let upstream = upstream(of: domain) {
            sendUpstream(incoming, next, to: upstream.hop, isAway: upstream.isAway, caller: caller, now: now)
        } else {
            guard belongTogether(destination.home ?? identity.domains.first, domain) else {
                return refuse(incoming, .forbidden, because: .otherTenant, now: now)
            }
            deliverToUser(incoming, next, destination, caller: caller, now: now)
        }
    }

    /// Forwards a CANCEL outside dialogs if no INVITE of this daemon matches the CANCEL.
    func initialCancelReceived(_ incoming: IncomingRequest, _ next: RouteSet.Next, now: Moment) {
        guard incoming.request.to.tag == nil, let home = home(of: next.requestURI, from: incoming),
            incoming.isTrusted
                ? isTrusted(incoming, for: home) : belongTogether(home, senderDomain(incoming)),
            let aor = userCalled(byTokenIn: next.requestURI, incoming)
                ?? AddressOfRecord(next.requestURI, home: home)
        else { return refuse(incoming, .callDoesNotExist, now: now) }
        let caller = Caller(of: incoming.request, on: incoming.flow, isTrusted: incoming.isTrusted)
        guard admitsBesides(incoming, from: caller, now: now) else { return }
        let parties = HeldShares.Parties(caller: caller)
        guard incoming.isTrusted || registrar.device(calling: incoming, identity) != nil else {
            return refuse(incoming, .callDoesNotExist, now: now)
        }
        if !incoming.isTrusted, let upstream = upstream(of: senderDomain(incoming))?.hop {
            guard let (incoming, call) = startProxying(incoming, to: [nil], parties: parties, now: now) else { return }
            let edits = RequestEdits(requestURI: next.requestURI.text, via: .empty, maxForwards: 70)
            sendToHop(incoming, edits, for: 0, of: call, to: upstream, now: now)
            return
        }
        let targets = registrar.bindings.forkTargets(for: aor, now: now.instant)
        guard let target = targets.first(where: { $0.isFresh && !$0.flow.isClosed }) else {
            return refuse(incoming, .callDoesNotExist, now: now)
        }
        guard let (incoming, call) = startProxying(incoming, to: [target.id], parties: parties, now: now) else {
            return
        }
        sendToDevice(incoming, for: 0, of: call, to: target, now: now)
    }

    /// Checks the password of an untrusted sender, and returns the caller whose rate limits apply to the request. If
    /// ``authenticateSender(_:now:)`` returns `nil`, the request was answered with 407, 403 or 503.
    func authenticateSender(_ incoming: inout IncomingRequest, now: Moment) -> Caller? {
        guard settings.authenticates else {
            return Caller(of: incoming.request, on: incoming.flow, isTrusted: false)
        }
        let from = incoming.request.from.uri
        guard let home = identity.home(of: from) ?? preferredHome(incoming) ?? identity.domains.first else {
            return nil
        }
        let verdict = checkCredentials(of: incoming, as: .proxy, home: home, owner: nil, now: now)
        if case .challenge(.nothingShown) = verdict {
            noteAsked(incoming, now: now)
        } else {
            access.refusals.answered(callID: incoming.request.callID, at: incoming.flow.remote.address)
        }
        switch verdict {
        case .authenticated(let user, _), .forbidden(let user):
            // The From must be anonymous or name the user whose password was shown, because From alone proves no
            // identity (T9.6).
            let proved = AddressOfRecord(user: user.name, host: home)
            let isOwn = identity.home(of: from) != nil && AddressOfRecord(from, home: home) == proved
            incoming = incoming.proved(by: proved)
            if isOwn || from.host.equalsIgnoringCase("anonymous.invalid") { return Caller(user: proved) }
            refuse(incoming, .forbidden, because: .otherIdentity, now: now)
        case .limited(let wait):
            refuse(incoming, .serviceUnavailable, because: .wrongLogins, fields: [Self.retryAfter(wait)], now: now)
        case .asking(let name) where waits(incoming, for: AddressOfRecord(user: name, host: home), now: now): break
        case .asking, .unavailable:
            refuse(incoming, .serviceUnavailable, because: .usersAway, fields: [retryLater], now: now)
        case .awaitingKeys:
            refuse(incoming, .serviceUnavailable, because: .keysAway, fields: [retryLater], now: now)
        case .challenge(let reason):
            switch reason {
            case .wrong, .wrongForBinding, .badToken, .tokenInClear:
                noteRefused(incoming, .proxyAuthenticationRequired, because: .wrongPassword, now: now)
            case .nothingShown, .stale: break
            }
            challenge(incoming, reason, as: .proxy, home: home, now: now)
        }
        return nil
    }

    /// The domain of an anonymous caller, from P-Preferred-Identity (RFC 3325 section 6). If the daemon has several
    /// domains, only P-Preferred-Identity says in which realm an anonymous caller must authenticate.
    private func preferredHome(_ incoming: IncomingRequest) -> ByteString? {
        guard identity.domains.count > 1,
            let value = incoming.request.frame.firstValue(of: .pPreferredIdentity),
            let aor = CallerIdentity.uri(of: value).flatMap({ AddressOfRecord(uriText: $0) }),
            identity.isDomain(aor.host)
        else { return nil }
        return aor.host
    }

    // MARK: To the PBX

    /// Sends a phone's request to the PBX at which the phone's user is registered.
    func sendToPBX(_ incoming: IncomingRequest, _ next: RouteSet.Next, _ number: Int, now: Moment) {
        var incoming = incoming
        let caller: Caller
        if let user = registeredUser(incoming, at: number, now: now) {
            caller = Caller(user: user)
        } else if let proved = authenticateSender(&incoming, now: now) {
            caller = proved
        } else {
            return
        }
        let pbx = upstreamUsers.pbxs[number]
        sendUpstream(incoming, next, to: pbx.upstream, isAway: pbx.health.refuses, caller: caller, now: now)
    }

    /// The user in From, if the user is registered on the request's flow and the PBX itself challenges phones;
    /// otherwise `nil`.
    private func registeredUser(_ incoming: IncomingRequest, at number: Int, now: Moment) -> AddressOfRecord? {
        guard settings.authenticates, upstreamUsers.pbxs[number].registers,
            upstreamUsers.pbxs[number].credence != .takesOurWord, let user = identity.callingUser(of: incoming),
            let device = registrar.bindings.device(of: user, where: { $0 == incoming.flow }),
            registrar.bindings.forkTarget(device, now: now.instant)?.isFresh == true
        else { return nil }
        return user
    }

    func sendUpstream(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, to upstream: NextHop, isAway: Bool, caller: Caller,
        now: Moment
    ) {
        guard Breadth.share(of: incoming.request, among: 1) > 0 else {
            refuse(incoming, .maxBreadthExceeded, because: .loop, now: now)
            return
        }
        guard !isAway else {
            let fields = upstreamIsAway
            return refuse(
                incoming, .serviceUnavailable, because: .upstreamAway, fields: fields, now: now)
        }
        let domain = incoming.sender?.host ?? senderDomain(incoming)
        guard admits(incoming, from: caller, to: nil, of: domain, now: now) else { return }
        let parties = HeldShares.Parties(caller: caller, tenant: share(of: domain))
        guard
            let (incoming, call) = startProxying(incoming, to: [nil], parties: parties, now: now)
        else {
            return
        }
        if call.fork.isInvite { outgoingBegan(call, incoming, next, now: now) }
        sendTrying(incoming, now: now)
        send(incoming, next, of: call, upstream: upstream, now: now)
    }

    func send(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, of call: ProxiedRequest, upstream: NextHop, now: Moment
    ) {
        var edits = RequestEdits(requestURI: next.requestURI.text, via: .empty, maxForwards: 70)
        // The daemon ignores a phone's own Route, because the Route could bypass the PBX (T9.5).
        edits.routes = []
        edits.added = identity(of: incoming)
        sendToHop(incoming, edits, for: 0, of: call, to: upstream, now: now)
    }

    /// The header field P-Asserted-Identity for the upstream (RFC 3325). It names the user whose password came with the
    /// request.
    func identity(of incoming: IncomingRequest) -> [AddedField] {
        incoming.sender.map { [AddedField("P-Asserted-Identity", $0.assertedIdentity)] } ?? []
    }

    // MARK: To our users

    private func deliverToUser(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, _ destination: Destination, caller: Caller, now: Moment
    ) {
        func refuse(_ status: Status, because refusal: Refusal, fields: [AddedField] = []) {
            self.refuse(incoming, status, because: refusal, fields: fields, now: now)
        }
        guard let home = destination.home ?? identity.domains.first else {
            return refuse(.notFound, because: .unknownUser)
        }
        let aor: AddressOfRecord
        var only: DeviceID?
        switch destination.addressee ?? addressee(next.requestURI, home: home) {
        case .nobody: return refuse(.notFound, because: .unknownUser)
        case .user(let user): aor = user
        case .device(nil, let user) where isKnown(user):
            return refuse(.temporarilyUnavailable, because: .noContact)
        case .device(let device, let user): (aor, only) = (user, device)
        }
        var contacts = registrar.bindings.forkTargets(for: aor, now: now.instant)
        guard !contacts.isEmpty || isKnown(aor) || incoming.reading == .stale else {
            refuse(.notFound, because: .unknownUser)
            return
        }
        if contacts.isEmpty, incoming.reading == .stale {
            return refuse(.serviceUnavailable, because: .usersAway, fields: [Self.retryAfter(seconds: 5)])
        }
        if contacts.isEmpty, incoming.request.method == .invite {
            return offerToNobody(incoming, of: aor, caller: caller, now: now)
        }
        if let only = only ?? deviceReplaced(by: incoming.request, of: aor) { contacts.removeAll { $0.id != only } }
        // A `sips:` request is sent only to `sips:` contacts (RFC 5630 section 5.3), and only over TLS hops (T9.9).
        let isSecure = next.requestURI.scheme == .sips
        let hasContacts = !contacts.isEmpty
        contacts.removeAll { $0.isSecure ? !hop(to: $0).isReachable : isSecure }
        let targets = contacts
        guard !targets.isEmpty else {
            refuse(
                .temporarilyUnavailable, because: hasContacts ? .notSecure : .noContact,
                fields: hasContacts ? [sipsNotAllowed] : [])
            return
        }
        guard Breadth.share(of: incoming.request, among: targets.count) > 0 else {
            self.refuse(incoming, .maxBreadthExceeded, because: .loop, now: now)
            return
        }
        if incoming.request.method == .invite {
            offer(incoming, to: aor, targets, caller: caller, now: now)
        } else if destination.isByToken, incoming.request.method == .notify {
            noticeReceived(incoming, to: aor, targets, caller: caller, now: now)
        } else if settings.messages.wakes(for: incoming.request.method), furtherRoute(of: incoming) == nil {
            messageReceived(incoming, to: aor, targets, caller: caller, now: now)
        } else {
            forkAtOnce(incoming, to: aor, targets, caller: caller, now: now)
        }
    }

    /// The user's phone that takes part in the dialog that the INVITE's header field Replaces names.
    private func deviceReplaced(by request: SIPRequest, of aor: AddressOfRecord) -> DeviceID? {
        guard request.method == .invite, let value = request.frame.firstValue(of: .replaces),
            let device = dialogs.devices.device(replacedBy: value), registrar.bindings.binding(device)?.aor == aor
        else { return nil }
        return registrar.bindings.device(of: device)
    }

    /// Whether the user exists: the user has a contact or a password, or may be in a source of users outside the store.
    /// If phones do not authenticate, a user whose contact expired recently also exists.
    package func isKnown(_ aor: AddressOfRecord) -> Bool {
        registrar.bindings.isKnown(aor) || !settings.authenticates && registrar.bindings.wasKnown(aor)
            || registrar.users.user(named: aor.user, realm: access.digest.realm(for: aor.host).account) != nil
            || access.users.cache.mayExist(aor)
    }

    /// Forwards a request other than INVITE to the devices that are reachable without a push.
    private func forkAtOnce(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller: Caller, now: Moment
    ) {
        // If a trusted peer's request has further Route values, it is sent even if the phone's flow has ended.
        let goesFurther = furtherRoute(of: incoming) != nil
        let reachable = targets.filter { $0.isFresh && (goesFurther || hop(to: $0).isOpen) }
        guard !reachable.isEmpty else {
            refuse(incoming, .temporarilyUnavailable, now: now)
            return
        }
        guard admits(incoming, from: caller, to: aor, of: aor.host, now: now) else { return }
        guard
            let (incoming, call) = startProxying(
                incoming, to: reachable.map(\.id),
                parties: HeldShares.Parties(
                    caller: caller, callee: aor.shareNumber, tenant: share(of: aor.host)), now: now)
        else { return }
        sendTrying(incoming, now: now)
        for (index, target) in reachable.enumerated() {
            sendToDevice(incoming, for: index, of: call, to: target, now: now)
        }
    }
}
