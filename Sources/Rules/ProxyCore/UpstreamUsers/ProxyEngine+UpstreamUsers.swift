import AccessLimits
import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import UpstreamRegistration

/// Reports devices and passwords of users to the ``UpstreamAgent``, sends the agent's REGISTERs to the PBXs, and
/// reports the answers to the agent.
extension ProxyEngine {
    /// Calls `body` with the ``UpstreamAgent``, and carries out the orders that the agent gives.
    func changeUpstreamUsers(
        now: Moment, _ body: (inout UpstreamAgent, Moment, inout [UpstreamOrder]) -> Void
    ) {
        guard !upstreamUsers.pbxs.isEmpty else { return }
        var orders: [UpstreamOrder] = []
        body(&upstreamUsers.agent, now, &orders)
        // The loop is needed because the agent gives further orders if a REGISTER cannot be sent.
        while !orders.isEmpty {
            let current = orders
            orders = []
            for order in current { carryOut(order, now: now, into: &orders) }
        }
    }

    private func carryOut(_ order: UpstreamOrder, now: Moment, into orders: inout [UpstreamOrder]) {
        switch order {
        case .send(let order):
            if let failure = register(order, now: now) {
                upstreamUsers.agent.failed(order.number, failure, now: now, into: &orders)
            }
        case .abandon(let number):
            noLongerAsked(number)
            guard let client = upstreamUsers.pending.removeValue(forKey: number)?.client else { return }
            sip.legs.end(client)
            withTransactions { $0.giveUp(client, now: now.instant, into: &$1) }
        case .storeCeiling(let ceiling): act(.storeRegisterCeiling(ceiling))
        case .tell(let event): tell(event, now: now)
        }
    }

    func upstreamUsersDue(now: Moment) {
        guard !upstreamUsers.pbxs.isEmpty, let next = upstreamUsers.nextDeadline, next <= now.instant else { return }
        for number in upstreamUsers.numbers {
            let orders = upstreamUsers.pbxs[number].health.due(now: now.instant) { isSilent($0) }
            carryOut(orders, of: number, now: now)
        }
        changeUpstreamUsers(now: now) { $0.due(now: $1, into: &$2) }
    }

    // MARK: Users

    /// At the start, when a push provider is switched on, or when a domain is added, reports to the agent all users who
    /// have a device that a push can wake.
    func findUpstreamUsers(now: Moment) {
        guard !upstreamUsers.pbxs.isEmpty else { return }
        var cursor = BindingCursor()
        var hasMore = true
        while hasMore {
            var devices: [DeviceID] = []
            hasMore = registrar.bindings.forEachDevice(
                of: ProviderSet(registrar.enabledProviders), with: [], from: &cursor, limit: 1000
            ) { devices.append($0.id) }
            for device in devices {
                guard let aor = registrar.bindings.binding(device)?.aor else { continue }
                noteUpstreamUser(aor, isFromEarlierRun: true, now: now)
            }
        }
    }

    /// Tells the agent that a device of the user was added, changed or removed.
    ///
    /// - Parameters:
    ///   - aor: the user.
    ///   - date: the time of the phone's REGISTER that is the cause; `nil` if there is none.
    ///   - isFromEarlierRun: whether an earlier run may have registered the user.
    ///   - now: the time by both clocks.
    func noteUpstreamUser(
        _ aor: AddressOfRecord, signed date: UnixTime? = nil, isFromEarlierRun: Bool = false, now: Moment
    ) {
        guard !upstreamUsers.pbxs.isEmpty, let user = upstreamUsers.user(aor) else { return }
        guard let sign = registrar.bindings.lastSign(ofWakeable: aor) else {
            return changeUpstreamUsers(now: now) { $0.userEnded(user, .noDevice, now: $1, into: &$2) }
        }
        let (algorithms, fingerprint) = passwordFacts(of: aor, now: now)
        changeUpstreamUsers(now: now) { agent, now, orders in
            agent.userIsWakeable(
                WakeableUser(
                    upstream: user.upstream, name: user.name, algorithms: algorithms, fingerprint: fingerprint,
                    lastSign: max(sign, date ?? sign),
                    isFromEarlierRun: isFromEarlierRun), now: now, into: &orders)
        }
    }

    /// Tells the agent that a user got a new password, in all domains with this realm.
    func notePassword(of name: ByteString, realm: ByteString, now: Moment) {
        for number in upstreamUsers.numbers
        where access.digest.realm(for: upstreamUsers.pbxs[number].domain).account == realm {
            let pbx = upstreamUsers.pbxs[number]
            let aor = AddressOfRecord(user: name, host: pbx.domain)
            if registrar.bindings.lastSign(ofWakeable: aor) != nil { noteUpstreamUser(aor, now: now) }
        }
    }

    /// Ends the registration of a removed user at the PBX. The password is kept until the PBX has confirmed the end.
    func upstreamUserRemoved(_ removed: DigestUser, now: Moment) {
        for number in upstreamUsers.numbers
        where access.digest.realm(for: upstreamUsers.pbxs[number].domain).account == removed.realm {
            let pbx = upstreamUsers.pbxs[number]
            guard let user = upstreamUsers.user(AddressOfRecord(user: removed.name, host: pbx.domain)) else { continue }
            if upstreamUsers.removed.count < UpstreamUsers.removedLimit { upstreamUsers.removed[user] = removed }
            changeUpstreamUsers(now: now) { $0.userEnded(user, .userRemoved, now: $1, into: &$2) }
            // The password is not needed if the agent has no record of the user.
            if upstreamUsers.agent.status(of: user) == nil { upstreamUsers.removed[user] = nil }
        }
    }

    // MARK: REGISTERs

    /// Sends the REGISTER that the agent has ordered, or first asks a source of users for the password.
    ///
    /// - Returns: why the REGISTER cannot be sent; `nil` if it was sent, or waits for the source's answer.
    func register(_ order: RegisterOrder, hasAsked: Bool = false, now: Moment) -> RegisterFailure? {
        guard let number = upstreamUsers.number(of: order.user.upstream),
            let hop = upstreamUsers.pbxs[number].hops.first(where: { $0.endpoint == order.server.endpoint }),
            let listener = identity.listener(for: hop.transport, to: hop.endpoint.address, preferring: nil)
        else { return .noAnswer }
        let domain = upstreamUsers.pbxs[number].domain
        var credentials: AddedField?
        if let answer = order.answer {
            switch password(for: order, hasAsked: hasAsked, now: now) {
            case .known(let password):
                credentials = answer.field(for: password, uri: OwnRegister.requestURI(of: domain), functions.digest)
                if credentials == nil { return .noPassword }
            case .unknown: return .noPassword
            case .away: return .passwordAway
            case .busy: return .busy
            case .asking: return nil
            }
        }
        guard let client = sip.makeClientTransaction() else { return .busy }
        let contact = order.purpose == .query ? nil : Self.contact(order.token, at: listener)
        let request = OwnRegister(
            domain: domain, user: order.user.name, via: via(for: client, listener: listener, loopHash: 0),
            callID: order.callID, cseq: order.cseq, tag: ByteString(Hex.encode(functions.random().bytes)),
            contact: contact, expires: order.purpose.seconds,
            path: order.hasPath ? Self.path(to: listener) : nil, credentials: credentials)
        let flow = Flow(
            transport: hop.transport, listener: listener.number, connection: 0, remote: hop.endpoint, server: hop.server
        )
        upstreamUsers.pending[order.number] = (client, hop.endpoint)
        sip.legs.start(client, order.number)
        withTransactions { $0.start(client, request: request.outgoing, on: flow, now: now.instant, into: &$1) }
        return nil
    }

    /// Sends the REGISTER that has waited for the user's password, or compares the password with the refused one.
    func passwordSettled(of aor: AddressOfRecord, now: Moment) {
        guard !upstreamUsers.asked.isEmpty, let asked = upstreamUsers.asked.removeValue(forKey: aor) else { return }
        switch asked {
        case .send(let order):
            guard let failure = register(order, hasAsked: true, now: now) else { return }
            changeUpstreamUsers(now: now) { $0.failed(order.number, failure, now: $1, into: &$2) }
        case .compare: noteUpstreamUser(aor, now: now)
        }
    }

    /// The URI that the PBX calls for the user, with an ``UpstreamToken`` as user and this daemon as host.
    private static func contact(_ token: UpstreamToken, at listener: Listener) -> ByteString {
        ByteString(capacity: 96) { out in
            out.append("sip:")
            out.append(token.text)
            out.append("@")
            out.append(listener.sentBy)
            guard listener.transport != .udp else { return }
            out.append(";transport=")
            out.append(text: listener.transport.parameterName)
        }
    }

    /// The URI in the Path of a REGISTER (RFC 3327): the address of this daemon, without a user.
    private static func path(to listener: Listener) -> ByteString {
        ByteString(capacity: 96) { out in
            out.append("sip:")
            out.append(listener.sentBy)
            if listener.transport != .udp {
                out.append(";transport=")
                out.append(text: listener.transport.parameterName)
            }
            out.append(";lr")
        }
    }

    func registrationAnswered(
        _ number: RegisterNumber, _ response: SIPResponse, of client: ClientTransactionID, now: Moment
    ) {
        guard response.status.isFinal else { return }
        sip.legs.end(client)
        guard let place = upstreamUsers.pending.removeValue(forKey: number)?.place else { return }
        pbxHeard(at: place, now: now)
        let read = RegisterResponse(response)
        changeUpstreamUsers(now: now) { $0.responded(to: number, read, now: $1, into: &$2) }
    }

    func registrationFailed(_ number: RegisterNumber, _ client: ClientTransactionID, now: Moment) {
        sip.legs.end(client)
        guard upstreamUsers.pending.removeValue(forKey: number) != nil else { return }
        changeUpstreamUsers(now: now) { $0.failed(number, .noAnswer, now: $1, into: &$2) }
    }
}

extension RegisterOrder.Purpose {
    fileprivate var seconds: UInt32 { if case .bind(let seconds) = self { seconds } else { 0 } }
}

extension UInt64 {
    fileprivate var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(big: self)
        return bytes
    }
}
