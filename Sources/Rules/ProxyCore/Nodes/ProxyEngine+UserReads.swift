import AccessLimits
import Addressing
import Bytes
import Calling
package import LocationService
import Messaging
import ProxyPolicy
import PushDelivery
import PushPlanning
package import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import UpstreamRegistration
import Waking

/// Reads the users whom a request concerns from the store, while several nodes use the store.
extension ProxyEngine {
    /// Whether the engine can decide about a request now. If not, the request waits until the store has answered.
    func hasRead(_ incoming: IncomingRequest, now: Moment) -> Bool {
        guard network.flows.haveNodes, incoming.reading == .none else { return true }
        if isContinuedElsewhere(incoming) || isRefusedAsLate(incoming, now: now) { return false }
        let (subjects, called) = usersConcerned(by: incoming, now: now)
        guard !subjects.isEmpty else { return true }
        switch registrar.reads.hold(.request(incoming), concerning: subjects) {
        case .asks(let question):
            // The INVITE of a phone is announced after the check of its password, so that strangers write nothing.
            let isAnnounced = (incoming.isTrusted || !settings.authenticates) && called?.fitsStore == true
            let announced = isAnnounced ? called : nil
            if let announced { waits(forPhonesOf: announced, now: now) }
            let invite = announced.flatMap { held(incoming, for: $0, now: now) }
            if let invite { network.held.stores(invite.key) }
            act(.readUsers(question, waiting: announced.map { Announcement(aor: $0, invite: invite) }))
        case .waitsAlready: break
        case .noRoom:
            output.counters.count(.nodeReadRefused)
            refuse(
                incoming, .serviceUnavailable, because: .tooManyCalls, fields: [Self.retryAfter(seconds: 5)], now: now)
        }
        return false
    }

    /// The INVITE with which another node can continue the call; `nil` for the INVITE of a phone, because nobody has
    /// checked the phone's password yet.
    private func held(_ incoming: IncomingRequest, for aor: AddressOfRecord, now: Moment) -> HeldInvite? {
        let key = HeldCallKey(aor: aor.compacted(), callID: incoming.request.callID.compacted())
        guard incoming.isTrusted, incoming.request.method == .invite, key.fitsStore else { return nil }
        return HeldInvite(
            aor: key.aor, callID: key.callID,
            request: incoming.request.frame.bytes.compacted(), source: incoming.flow,
            until: now.date + settings.call.ringTimeout)
    }

    /// Ends or announces a request that was dispatched as soon as its users were read. A refused INVITE is withdrawn from
    /// the store. A phone's request that waits is announced, and its users are read once more.
    func hasDispatched(_ incoming: IncomingRequest, now: Moment) {
        guard case (_, let aor?) = usersConcerned(by: incoming, now: now) else { return }
        if !incoming.isTrusted, settings.authenticates {
            if isAnythingWaiting(for: aor, now: now) { announce(aor, now: now) }
        } else if incoming.request.method == .invite, incoming.isTrusted,
            incoming.server.flatMap({ calls.call(of: $0) }) == nil
        {
            network.held.ended(HeldCallKey(aor: aor, callID: incoming.request.callID))
            act(.endInvite(aor, callID: incoming.request.callID))
        }
    }

    /// Whether something waits here for a device of the user.
    private func isAnythingWaiting(for aor: AddressOfRecord, now: Moment) -> Bool {
        guard aor.fitsStore else { return false }
        return isWaiting(for: aor, now: now)
    }

    private func isWaiting(for aor: AddressOfRecord, now: Moment) -> Bool {
        !messages.queue(of: aor).isEmpty
            || registrar.bindings.forkTargets(for: aor, now: now.instant).contains { wakes.isWaitedFor($0.id) }
    }

    /// Ends a request that is cancelled while it waits for the store. The CANCEL of another sender gets 481 without a
    /// transaction: see ``cancelReceived(_:of:now:)``.
    ///
    /// - Returns: false if no such request waits.
    func cancelledWhileReading(_ cancel: IncomingRequest, now: Moment) -> Bool {
        guard network.flows.haveNodes, !registrar.reads.isEmpty else { return false }
        let result = registrar.reads.cancelled(
            TransactionKey(inviteOf: cancel.request), if: { mayCancel($0, to: $1, cancel) })
        switch result {
        case .nothing: return false
        case .foreign: refuse(cancel, .callDoesNotExist, now: now)
        case .ended(let invite):
            refuse(cancel, .ok, now: now)
            refuse(invite, .requestTerminated, now: now)
        }
        return true
    }

    /// Whether a CANCEL comes from the sender of a request that waits for the store. The branch in Via is no proof: see
    /// ``cancelReceived(_:of:now:)``.
    private func mayCancel(
        _ invite: IncomingRequest, to subjects: [UserSubject], _ cancel: IncomingRequest
    ) -> Bool {
        if cancel.flow.remote.address == invite.flow.remote.address { return true }
        guard invite.isTrusted else { return false }
        if case .user(let called)? = subjects.first { return isTrusted(cancel, for: called.host) }
        return cancel.isTrusted && !hasTenants
    }

    /// Lets the ACK of a 2xx wait for the store; returns false if the ACK can be forwarded now.
    func reads(before acknowledgement: IncomingRequest, now: Moment) -> Bool {
        guard network.flows.haveNodes else { return false }
        let (subjects, _) = usersConcerned(by: acknowledgement, now: now)
        guard !subjects.isEmpty else { return false }
        if case .asks(let question) = registrar.reads.hold(.acknowledgement(acknowledgement), concerning: subjects) {
            act(.readUsers(question, waiting: nil))
        }
        return true
    }

    /// Asks the store about a user, and then begins a change of the user's devices that an HTTP client ordered.
    func beginRead(_ work: RegistrarWork, for aor: AddressOfRecord, now: Moment) {
        guard network.flows.haveNodes else { return begin(work, for: aor, now: now) }
        if case .asks(let question) = registrar.reads.hold(.change(work, aor), concerning: [.user(aor)]) {
            act(.readUsers(question, waiting: nil))
        }
    }

    /// Reads a user from the store for an operator's question, so that the answer has the changes of all nodes. A daemon
    /// without other nodes knows all users.
    package func lookUp(_ aor: AddressOfRecord, for ticket: LookTicket) {
        guard network.flows.haveNodes else { return act(.userLookedUp(ticket, isFresh: true)) }
        if case .asks(let question) = registrar.reads.hold(.look(ticket), concerning: withAccount(of: aor)) {
            act(.readUsers(question, waiting: nil))
        }
    }

    // MARK: Users at PBXs

    /// Reads a user whom this node registers at a PBX, and who may have changed at another node.
    func readUpstreamUser(_ aor: AddressOfRecord) {
        if case .asks(let question) = registrar.reads.hold(.upstreamUser(aor), concerning: withAccount(of: aor)) {
            act(.readUsers(question, waiting: nil))
        }
    }

    /// Reads the password for a REGISTER to a PBX.
    func readPassword(for order: RegisterOrder, of aor: AddressOfRecord) {
        upstreamUsers.asked[aor] = .read(order)
        if case .asks(let question) = registrar.reads.hold(.upstreamPassword(aor), concerning: [account(of: aor)]) {
            act(.readUsers(question, waiting: nil))
        }
    }

    /// Whether a request needs an answer of the store: a REGISTER, and a request with the password of a user whose
    /// account this node has never read.
    func needsAnswer(_ incoming: IncomingRequest, now: Moment) -> Bool {
        guard incoming.request.method != .register else { return true }
        return accountShown(by: incoming, now: now)?.contains { account in
            guard case .account(let name, let realm) = account else { return false }
            return registrar.users.user(named: name, realm: realm) == nil
        } == true
    }

    // MARK: Whom a request concerns

    /// The users whom a request concerns, and the called user if the request may wait for one of the user's phones.
    ///
    /// A request that the engine will challenge, or refuse after too many wrong passwords, concerns nobody, so that
    /// strangers cause few questions.
    private func usersConcerned(
        by incoming: IncomingRequest, now: Moment
    ) -> (subjects: [UserSubject], called: AddressOfRecord?) {
        let request = incoming.request
        if request.method == .register, identity.home(of: request.uri) != nil {
            guard showsPassword(incoming, in: .authorization, now: now),
                let home = ownHome(of: request.to.uri, from: incoming),
                let aor = AddressOfRecord(request.to.uri, home: home), !isLimited(incoming, aor, now: now)
            else { return ([], nil) }
            return (withAccount(of: aor), nil)
        }
        switch route(of: request) {
        case .forged: return ([], nil)
        case .dialog(let pass, _):
            let parties = [pass.sender.party, pass.receiver.party]
            return (parties.compactMap { if case .phone(let device) = $0 { .device(device) } else { nil } }, nil)
        case .initial(let next):
            guard showsPassword(incoming, in: .proxyAuthorization, now: now) else { return ([], nil) }
            guard let sender = accountShown(by: incoming, now: now) else { return ([], nil) }
            switch userNamed(by: next.requestURI, incoming) {
            case .user(let aor)?:
                let waits = request.method != .cancel && request.method != .options
                return (withAccount(of: aor) + sender, waits ? aor : nil)
            case let subject?: return ([subject] + sender, nil)
            case nil: return (sender, nil)
            }
        }
    }

    /// The user, and the account that shows whether the user exists.
    func withAccount(of aor: AddressOfRecord) -> [UserSubject] {
        [.user(aor), account(of: aor)]
    }

    func account(of aor: AddressOfRecord) -> UserSubject {
        .account(name: aor.user, realm: access.digest.realm(for: aor.host).account)
    }

    /// The account whose password a request outside dialogs shows; `nil` after too many wrong passwords.
    private func accountShown(by incoming: IncomingRequest, now: Moment) -> [UserSubject]? {
        guard !incoming.isTrusted, settings.authenticates,
            let home = identity.home(of: incoming.request.from.uri) ?? identity.domains.first
        else { return [] }
        let realm = access.digest.realm(for: home).account
        let names = incoming.request.proxyAuthorization.map(\.username)
        guard !names.contains(where: { isLimited(incoming, AddressOfRecord(user: $0, host: home), now: now) }) else {
            return nil
        }
        return names.map { .account(name: $0, realm: realm) }
    }

    /// Whether the password in a request must wait, after too many wrong passwords from its address or for its user. On
    /// the flow of the user's own phone, no password waits.
    private func isLimited(_ incoming: IncomingRequest, _ user: AddressOfRecord, now: Moment) -> Bool {
        guard !incoming.isTrusted, settings.authenticates else { return false }
        let source = incoming.flow.remote.address
        let isAtHome = registrar.bindings.device(of: user) { $0.remote.address.source == source.source } != nil
        let attempt = LoginLimit.Attempt(from: source, for: user, isAtHome: isAtHome)
        return access.sources.logins.wait(for: attempt, now: now.instant) != nil
            && registrar.bindings.device(of: user) { $0 == incoming.flow } == nil
    }

    /// Whether the sender is trusted, or shows a bearer token or credentials with a nonce that this node may have made.
    private func showsPassword(_ incoming: IncomingRequest, in name: HeaderName, now: Moment) -> Bool {
        if incoming.isTrusted || !settings.authenticates { return true }
        guard incoming.request.frame.contains(name) else { return false }
        if takesTokens, incoming.flow.transport.isSecure { return true }
        return access.digest.mayHaveMade(
            incoming.request, as: name == .authorization ? .registrar : .proxy,
            for: .source(incoming.flow.remote.address), now: now.instant)
    }

    private func userNamed(by uri: SIPURI, _ incoming: IncomingRequest) -> UserSubject? {
        if let user = userCalled(byTokenIn: uri, incoming) { return .user(user) }
        if let device = uri.parameters.value(of: "pn-purr").flatMap({ functions.seal.openPURR($0) }) {
            return .device(device)
        }
        if case .temporary(let sealed)? = GRUU(uri) {
            return functions.seal.openTemporaryGRUU(sealed).map { .device($0.device) }
        }
        return (home(of: uri, from: incoming) ?? (uri.scheme == .tel ? identity.domains.first : nil))
            .flatMap { AddressOfRecord(uri, home: $0) }.map { .user($0) }
    }
}
