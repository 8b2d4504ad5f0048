import Addressing
import Bytes
import Collections
import PushDelivery
package import Registration
import SIPGrammar
import Telemetry
import Timekeeping

/// Requests outside dialogs: who sent one decides where it may go.
extension ProxyEngine {
    /// A request that belongs to no dialog made through here.
    func initialRequestReceived(_ incoming: IncomingRequest, _ next: RouteSet.Next, now: Moment) {
        let request = incoming.request
        let named = deviceNamed(byPURR: next.requestURI)
        let home = named?.aor.host ?? targetHome(of: next.requestURI)
        guard home != nil || next.requestURI.scheme == .tel else {
            refuse(incoming, .forbidden, because: .foreignDomain, now: now)
            return
        }
        if request.to.tag != nil {
            // Inside a dialog, but not one that was made through here.
            refuse(incoming, .callDoesNotExist, now: now)
            return
        }
        if let breach = RequestRules.outsideDialogs(request.method, fromTrusted: incoming.isTrusted) {
            return refuse(incoming, by: breach, now: now)
        }
        guard !admission.isDraining || request.method != .invite else {
            refuse(
                incoming, .serviceUnavailable, because: .draining, fields: [Self.retryAfter(seconds: 5)], now: now)
            return
        }
        if incoming.isTrusted {
            // Its Route is followed, and there may be no protected hop (T9.9).
            guard !next.isSecure || identity.hasTLS || incoming.flow.transport.isSecure else {
                refuse(incoming, .temporarilyUnavailable, because: .notSecure, fields: [sipsNotAllowed], now: now)
                return
            }
            let caller = caller(of: request, on: incoming.flow, isTrusted: true)
            deliverToUser(incoming, next, home: home, caller: caller, now: now)
            return
        }
        var incoming = incoming
        guard let caller = authenticateSender(&incoming, now: now) else { return }
        if let upstream = settings.upstream {
            sendUpstream(incoming, next, to: upstream, caller: caller, now: now)
        } else {
            deliverToUser(incoming, next, home: home, caller: caller, now: now)
        }
    }

    /// The identity behind a request from an address that is not trusted; `nil` when it was answered (407, 403).
    private func authenticateSender(_ incoming: inout IncomingRequest, now: Moment) -> Caller? {
        guard settings.authenticates else {
            return caller(of: incoming.request, on: incoming.flow, isTrusted: false)
        }
        let from = incoming.request.from.uri
        guard let home = identity.home(of: from) ?? preferredHome(incoming) ?? identity.domains.first else {
            return nil
        }
        let verdict = checkCredentials(of: incoming, as: .proxy, home: home, owner: nil, now: now)
        if case .challenge(.nothingShown) = verdict {
            noteAsked(incoming, now: now)
        } else {
            refusals.answered(callID: incoming.request.callID, at: incoming.flow.remote.address)
        }
        switch verdict {
        case .authenticated(let user), .forbidden(let user):
            // From is never an identity by itself (T9.6): it must be the one that was proved, or say nothing.
            let proved = AddressOfRecord(user: user.name, host: home)
            let isOwn = identity.home(of: from) != nil && AddressOfRecord(from, home: home) == proved
            incoming.sender = proved
            if isOwn || from.host.equalsIgnoringCase("anonymous.invalid") { return Caller(user: proved) }
            refuse(incoming, .forbidden, because: .otherIdentity, now: now)
        case .limited(let wait):
            refuse(incoming, .serviceUnavailable, because: .wrongLogins, fields: [Self.retryAfter(wait)], now: now)
        case .challenge(let reason):
            if case .wrong = reason {
                noteRefused(incoming, .proxyAuthenticationRequired, because: .wrongPassword, now: now)
            }
            challenge(incoming, reason, as: .proxy, home: home, now: now)
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

    /// The domain whose user a Request-URI names; the upstream's own host stands for the first one (T9.19).
    func targetHome(of uri: SIPURI) -> ByteString? {
        if let home = identity.home(of: uri) { return home }
        return settings.upstreamHosts.name(uri, of: settings.upstream, at: upstreamWatch.places)
            ? identity.domains.first : nil
    }

    // MARK: To the PBX

    private func sendUpstream(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, to upstream: NextHop, caller: Caller, now: Moment
    ) {
        guard Breadth.share(of: incoming.request, among: 1) > 0 else {
            refuse(incoming, .maxBreadthExceeded, now: now)
            return
        }
        guard !upstreamWatch.health.refuses else {
            let fields = upstreamIsAway
            return refuse(
                incoming, .serviceUnavailable, because: .upstreamAway, fields: fields, now: now)
        }
        guard admits(incoming, from: caller, to: nil, now: now) else { return }
        guard let (incoming, call) = proxied(incoming, to: [nil], parties: HeldShares.Parties(caller: caller), now: now)
        else {
            return
        }
        if call.fork.isInvite { outgoingBegan(call, incoming, next, now: now) }
        sendTrying(incoming, now: now)
        send(incoming, next, of: call, upstream: upstream, now: now)
    }

    func send(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, of call: Call, upstream: NextHop, now: Moment
    ) {
        var edits = RequestEdits(requestURI: next.requestURI.text, via: .empty, maxForwards: 70)
        // A phone's own Route would lead the request past the PBX (T9.5).
        edits.routes = []
        edits.added = identity(of: incoming)
        sendToHop(incoming, edits, for: 0, of: call, to: upstream, now: now)
    }

    /// Who sends it, as a trusted peer is told (RFC 3325): the user who has shown a password for it.
    func identity(of incoming: IncomingRequest) -> [AddedField] {
        incoming.sender.map { [AddedField("P-Asserted-Identity", $0.assertedIdentity)] } ?? []
    }

    // MARK: To our users

    private func deliverToUser(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, home: ByteString?, caller: Caller, now: Moment
    ) {
        func refuse(_ status: Status, because refusal: Refusal, fields: [AddedField] = []) {
            self.refuse(incoming, status, because: refusal, fields: fields, now: now)
        }
        guard let home = home ?? identity.domains.first else { return refuse(.notFound, because: .unknownUser) }
        let aor: AddressOfRecord
        var only: DeviceID?
        switch addressee(next.requestURI, home: home) {
        case .nobody: return refuse(.notFound, because: .unknownUser)
        case .user(let user): aor = user
        case .device(nil, let user) where isKnown(user):
            return refuse(.temporarilyUnavailable, because: .noContact)
        case .device(let device, let user): (aor, only) = (user, device)
        }
        var contacts = registrar.bindings.forkTargets(for: aor, now: now.instant)
        guard !contacts.isEmpty || isKnown(aor) else {
            refuse(.notFound, because: .unknownUser)
            return
        }
        if let only = only ?? deviceReplaced(by: incoming.request, of: aor) { contacts.removeAll { $0.id != only } }
        // A `sips:` address is served by `sips:` contacts alone (RFC 5630 section 5.3), and those over protected hops (T9.9).
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
            self.refuse(incoming, .maxBreadthExceeded, now: now)
            return
        }
        if incoming.request.method == .invite {
            offer(incoming, to: aor, targets, caller: caller, now: now)
        } else if settings.messages.wakes(for: incoming.request.method), furtherRoute(of: incoming) == nil {
            messageReceived(incoming, to: aor, targets, caller: caller, now: now)
        } else {
            forkAtOnce(incoming, to: aor, targets, caller: caller, now: now)
        }
    }

    /// The phone of that user whose dialog an INVITE with Replaces takes over.
    private func deviceReplaced(by request: SIPRequest, of aor: AddressOfRecord) -> DeviceID? {
        guard request.method == .invite, let value = request.frame.firstValue(of: .replaces),
            let device = dialogs.devices.device(replacedBy: value), registrar.bindings.binding(device)?.aor == aor
        else { return nil }
        return registrar.bindings.device(of: device)
    }

    /// Whether there is such a user: with a contact or a password, or, where nobody has a password, with a contact that has gone
    /// lately.
    package func isKnown(_ aor: AddressOfRecord) -> Bool {
        registrar.bindings.isKnown(aor) || !settings.authenticates && registrar.bindings.wasKnown(aor)
            || registrar.users.user(named: aor.user, realm: digest.realm(for: aor.host)) != nil
    }

    /// Other requests go to the devices that can be reached now; nothing is held for the others.
    private func forkAtOnce(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller: Caller, now: Moment
    ) {
        // A trusted peer's further Route is followed whether the phone's own flow is there or not.
        let goesFurther = furtherRoute(of: incoming) != nil
        let reachable = targets.filter { $0.isFresh && (goesFurther || isAwake($0)) }
        guard !reachable.isEmpty else {
            refuse(incoming, .temporarilyUnavailable, now: now)
            return
        }
        guard admits(incoming, from: caller, to: aor, now: now) else { return }
        guard
            let (incoming, call) = proxied(
                incoming, to: reachable.map(\.id),
                parties: HeldShares.Parties(caller: caller, callee: aor.shareNumber), now: now)
        else { return }
        sendTrying(incoming, now: now)
        for (index, target) in reachable.enumerated() {
            sendToDevice(incoming, for: index, of: call, to: target, now: now)
        }
    }
}
