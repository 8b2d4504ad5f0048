import Addressing
import Bytes
import Collections
import PushDelivery
package import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Requests outside dialogs. The sender decides where a request may go.
extension ProxyEngine {
    /// Handles a request that belongs to no dialog of this daemon.
    func initialRequestReceived(_ incoming: IncomingRequest, _ next: RouteSet.Next, now: Moment) {
        let request = incoming.request
        let named = deviceNamed(byPURR: next.requestURI)
        let home = named?.aor.host ?? targetHome(of: next.requestURI)
        guard home != nil || next.requestURI.scheme == .tel else {
            refuse(incoming, .forbidden, because: .foreignDomain, now: now)
            return
        }
        if request.to.tag != nil {
            // The request has a To tag, but its dialog did not begin through this daemon.
            refuse(incoming, .callDoesNotExist, now: now)
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
            // The daemon follows a trusted peer's Route, which may lead over an unprotected hop (T9.9).
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

    /// The proved identity of an untrusted sender. `nil` if the request was answered instead (407, 403 or 503).
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
            access.refusals.answered(callID: incoming.request.callID, at: incoming.flow.remote.address)
        }
        switch verdict {
        case .authenticated(let user), .forbidden(let user):
            // From alone proves nothing (T9.6). It must name the authenticated user, or be anonymous.
            let proved = AddressOfRecord(user: user.name, host: home)
            let isOwn = identity.home(of: from) != nil && AddressOfRecord(from, home: home) == proved
            incoming.sender = proved
            if isOwn || from.host.equalsIgnoringCase("anonymous.invalid") { return Caller(user: proved) }
            refuse(incoming, .forbidden, because: .otherIdentity, now: now)
        case .limited(let wait):
            refuse(incoming, .serviceUnavailable, because: .wrongLogins, fields: [Self.retryAfter(wait)], now: now)
        case .asking(let name) where waits(incoming, for: AddressOfRecord(user: name, host: home), now: now): break
        case .asking, .unavailable:
            refuse(incoming, .serviceUnavailable, because: .usersAway, fields: [retryLater], now: now)
        case .challenge(let reason):
            if case .wrong = reason {
                noteRefused(incoming, .proxyAuthenticationRequired, because: .wrongPassword, now: now)
            }
            challenge(incoming, reason, as: .proxy, home: home, now: now)
        }
        return nil
    }

    /// The domain of an anonymous caller, from P-Preferred-Identity (RFC 3325 section 6). With several domains, only
    /// that field says in which realm to challenge.
    private func preferredHome(_ incoming: IncomingRequest) -> ByteString? {
        guard identity.domains.count > 1,
            let value = incoming.request.frame.firstValue(of: .pPreferredIdentity),
            let aor = CallerIdentity.uri(of: value).flatMap({ AddressOfRecord(uriText: $0) }),
            identity.isDomain(aor.host)
        else { return nil }
        return aor.host
    }

    /// The domain of the user that a Request-URI names. The upstream's own host stands for our first domain (T9.19).
    func targetHome(of uri: SIPURI) -> ByteString? {
        if let home = identity.home(of: uri) { return home }
        return settings.upstreamHosts.name(uri, of: settings.upstream, at: network.upstream.places)
            ? identity.domains.first : nil
    }

    // MARK: To the PBX

    private func sendUpstream(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, to upstream: NextHop, caller: Caller, now: Moment
    ) {
        guard Breadth.share(of: incoming.request, among: 1) > 0 else {
            refuse(incoming, .maxBreadthExceeded, because: .loop, now: now)
            return
        }
        guard !network.upstream.health.refuses else {
            let fields = upstreamIsAway
            return refuse(
                incoming, .serviceUnavailable, because: .upstreamAway, fields: fields, now: now)
        }
        guard admits(incoming, from: caller, to: nil, now: now) else { return }
        guard
            let (incoming, call) = startProxying(
                incoming, to: [nil], parties: HeldShares.Parties(caller: caller), now: now)
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
        // A phone's own Route could lead the request past the PBX (T9.5).
        edits.routes = []
        edits.added = identity(of: incoming)
        sendToHop(incoming, edits, for: 0, of: call, to: upstream, now: now)
    }

    /// The P-Asserted-Identity for the upstream (RFC 3325): the user whose password the request carried.
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
        // Only `sips:` contacts serve a `sips:` address (RFC 5630 section 5.3), and only over protected hops (T9.9).
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
        } else if settings.messages.wakes(for: incoming.request.method), furtherRoute(of: incoming) == nil {
            messageReceived(incoming, to: aor, targets, caller: caller, now: now)
        } else {
            forkAtOnce(incoming, to: aor, targets, caller: caller, now: now)
        }
    }

    /// The user's phone whose dialog the Replaces of this INVITE takes over.
    private func deviceReplaced(by request: SIPRequest, of aor: AddressOfRecord) -> DeviceID? {
        guard request.method == .invite, let value = request.frame.firstValue(of: .replaces),
            let device = dialogs.devices.device(replacedBy: value), registrar.bindings.binding(device)?.aor == aor
        else { return nil }
        return registrar.bindings.device(of: device)
    }

    /// Whether the user exists: the user has a contact or a password. Without authentication, a user whose contact
    /// expired lately exists, too. A user exists as well if another source may have the user.
    package func isKnown(_ aor: AddressOfRecord) -> Bool {
        registrar.bindings.isKnown(aor) || !settings.authenticates && registrar.bindings.wasKnown(aor)
            || registrar.users.user(named: aor.user, realm: digest.realm(for: aor.host)) != nil
            || access.users.cache.mayExist(aor)
    }

    /// Forwards a request other than INVITE to the devices that can be reached now. Sleeping devices do not get the
    /// request.
    private func forkAtOnce(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller: Caller, now: Moment
    ) {
        // A trusted peer's further Route is followed even if the phone's own flow is gone.
        let goesFurther = furtherRoute(of: incoming) != nil
        let reachable = targets.filter { $0.isFresh && (goesFurther || isAwake($0)) }
        guard !reachable.isEmpty else {
            refuse(incoming, .temporarilyUnavailable, now: now)
            return
        }
        guard admits(incoming, from: caller, to: aor, now: now) else { return }
        guard
            let (incoming, call) = startProxying(
                incoming, to: reachable.map(\.id),
                parties: HeldShares.Parties(caller: caller, callee: aor.shareNumber), now: now)
        else { return }
        sendTrying(incoming, now: now)
        for (index, target) in reachable.enumerated() {
            sendToDevice(incoming, for: index, of: call, to: target, now: now)
        }
    }
}

/// Refusals by ``RequestRules``, and other checks of requests before they are forwarded.
extension ProxyEngine {
    /// Refuses a request. The sender gets the reason as a Warning, and the operator gets a log line.
    func refuse(_ incoming: IncomingRequest, by breach: RequestRules.Breach, now: Moment) {
        refuse(incoming, breach.status, because: breach.refusal, fields: [warning(breach.warning)], now: now)
    }

    /// A Warning with free text (code 399, RFC 3261 section 20.43).
    func warning(_ text: String) -> AddedField {
        .warning(399, by: identity.domains.first ?? ByteString("sippushd"), text)
    }

    // MARK: Challenges that nobody can answer (T9.17)

    /// Whether a response asks for passwords in our own realms only. The phone's answer could not reach the challenger,
    /// since we remove credentials for our realms (T9.8).
    func isUnanswerable(_ response: SIPResponse) -> Bool {
        guard response.status == .unauthorized || response.status == .proxyAuthenticationRequired else { return false }
        var isChallenge = false
        for field in response.frame.fields where field.name == .wwwAuthenticate || field.name == .proxyAuthenticate {
            guard response.frame.credentials(field, areFor: identity.realms) else { return false }
            isChallenge = true
        }
        return isChallenge
    }

    func noteUnanswerable(_ response: SIPResponse, of leg: BranchLeg, now: Moment) {
        output.counters.count(.challengeUnanswerable)
        guard let suppressed = access.refusals.unanswerable.admit(now: now.instant) else { return }
        let realm = identity.realms.first { realm in
            response.frame.fields.contains { field in
                (field.name == .wwwAuthenticate || field.name == .proxyAuthenticate)
                    && response.frame.credentials(field, areFor: [realm])
            }
        }
        let peer = leg.call.fork.branches[leg.branch].flow?.remote
        log.notice(
            "a peer asks phones for a password in a realm of this daemon, which no phone can answer: give the peer its own realm, or let it trust this daemon",
            [
                .target: peer.map { .described($0) } ?? .text("unknown"),
                .method: .bytes(response.cseq.method.name), .realm: .bytes(realm ?? .empty),
                .status: .number(Int(response.status.code)), .callID: .bytes(response.callID),
                .suppressed: .number(suppressed),
            ])
    }

    static let unanswerable = "The next server asks for a password in a realm of this proxy"

    /// Whether the content of a request allows to serve it. If not, the request was answered here.
    func isFit(_ incoming: IncomingRequest, isForUs: Bool, now: Moment) -> Bool {
        if let refusal = RequestValidation.check(
            incoming.request, fromTrusted: incoming.isTrusted, isForUs: isForUs,
            branchKey: sip.transactions.branchKey)
        {
            if incoming.request.method == .invite {
                noteRefused(incoming, refusal.status, because: refusal.cause, now: now)
            }
            refuse(incoming, refusal.status, fields: refusal.fields, now: now)
            return false
        }
        if incoming.request.uri.scheme == .sips, !incoming.flow.transport.isSecure {
            refuse(incoming, .temporarilyUnavailable, because: .notSecure, fields: [sipsNotAllowed], now: now)
            return false
        }
        return true
    }

    /// Whether an OPTIONS is for this daemon: the OPTIONS is addressed to us, or its Max-Forwards is 0 (RFC 3261
    /// sections 11 and 16.3 item 3).
    func isQuestionToUs(_ request: SIPRequest) -> Bool {
        guard request.method == .options else { return false }
        return request.maxForwards == 0 || request.uri.user == nil && identity.isUs(request.uri)
    }
}

extension RequestValidation.Refusal {
    /// The reason in the log and in the record of a refused call.
    fileprivate var cause: PushDelivery.Refusal {
        switch status {
        case .tooManyHops, .loopDetected: .loop
        default: .unfit
        }
    }
}
