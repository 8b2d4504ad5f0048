import AccessLimits
import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import Registration
package import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import UpstreamRegistration

/// Looks up and checks the servers of PBXs at which users are registered, and reports users and REGISTER responses to
/// the ``UpstreamAgent``.
extension ProxyEngine {
    func carryOut(_ orders: [UpstreamHealth.Order], of number: Int, now: Moment) {
        for order in orders {
            switch order {
            case .lookUp: lookUpPBX(number, now: now)
            case .probe(let hop): probe(hop, of: number, now: now)
            case .giveUp(let client): giveUp(client, now: now)
            case .tell(let place, let state, let after): tell(place, state, of: number, after: after, now: now)
            case .tellName(let isKnown):
                let name = upstreamUsers.pbxs[number].upstream.host
                if isKnown {
                    log.notice("DNS has an address for the name of a PBX again", [.target: .bytes(name)])
                } else if !upstreamUsers.pbxs[number].registers {
                    log.error(
                        "the upstream's host name cannot be resolved, so calls from phones fail",
                        [.target: .bytes(name)])
                } else {
                    log.error(
                        "DNS has no address for the name of a PBX, so the daemon cannot register users at this PBX",
                        [.target: .bytes(name)])
                }
            }
        }
    }

    func lookUpPBX(_ number: Int, now: Moment) {
        let upstream = upstreamUsers.pbxs[number].upstream
        guard let (transport, endpoint) = upstream.numeric else {
            lookUp(upstream, for: .pbx(number))
            return
        }
        pbxFound([ResolvedHop(transport: transport, endpoint: endpoint)], number, now: now)
    }

    func pbxFound(_ hops: [ResolvedHop], _ number: Int, now: Moment) {
        let hops = network.upstream.withoutOurs(hops, identity, log)
        if !hops.isEmpty { upstreamUsers.pbxs[number].hops = hops }
        carryOut(upstreamUsers.pbxs[number].health.found(hops, now: now.instant), of: number, now: now)
        let servers = hops.map { UpstreamServer(transport: $0.transport, endpoint: $0.endpoint) }
        if let registrations = upstreamUsers.pbxs[number].registrations {
            changeUpstreamUsers(now: now) { $0.serversFound(servers, of: registrations, now: $1, into: &$2) }
        }
        upstreamUsersDue(now: now)
    }

    func upstreamUsersDue(now: Moment) {
        guard !upstreamUsers.pbxs.isEmpty, let next = upstreamUsers.nextDeadline, next <= now.instant else { return }
        for number in upstreamUsers.numbers {
            let orders = upstreamUsers.pbxs[number].health.due(now: now.instant) { isSilent($0) }
            carryOut(orders, of: number, now: now)
        }
        changeUpstreamUsers(now: now) { $0.due(now: $1, into: &$2) }
    }

    private func probe(_ hop: ResolvedHop, of number: Int, now: Moment) {
        let upstream = upstreamUsers.pbxs[number].upstream
        let name = upstream.port.map { ByteString("\(upstream.host):\($0)") } ?? upstream.host
        if !ask(.pbx(number, hop.endpoint), hop, as: name, now: now) {
            pbxIsSilent(number, at: hop.endpoint, wasSent: false, now: now)
        }
    }

    func pbxAnswered(_ number: Int, at place: Endpoint, isProbe: Bool, now: Moment) {
        carryOut(
            upstreamUsers.pbxs[number].health.heard(at: place, isProbe: isProbe, now: now.instant), of: number, now: now
        )
    }

    /// Notes that a PBX server is up, because the server has answered a call.
    func notePBXHeard(_ leg: BranchLeg, now: Moment) {
        guard leg.call.outgoing != nil, let flow = leg.call.fork.branches[leg.branch].flow else { return }
        pbxHeard(at: flow.remote, now: now)
    }

    /// Notes that the server at the endpoint `place` has answered a REGISTER.
    func pbxHeard(at place: Endpoint, now: Moment) {
        for number in upstreamUsers.pbxs.indices where upstreamUsers.pbxs[number].health.contains(place) {
            pbxAnswered(number, at: place, isProbe: false, now: now)
        }
    }

    func pbxIsSilent(_ number: Int, at place: Endpoint, wasSent: Bool, now: Moment) {
        carryOut(
            upstreamUsers.pbxs[number].health.probeEnded(at: place, wasSent: wasSent, now: now.instant), of: number,
            now: now)
    }

    private func tell(
        _ place: Endpoint, _ state: UpstreamHealth.State, of number: Int, after: Duration, now: Moment
    ) {
        switch state {
        case .down:
            // A PBX server that never answered OPTIONS is not treated as down, because the server may still answer
            // REGISTERs.
            let answers = upstreamUsers.pbxs[number].health.servers.first { $0.hop.endpoint == place }?.answersProbes
            guard answers == true else { return }
            guard upstreamUsers.pbxs[number].registers else {
                return log.error(
                    "the upstream does not answer, so calls from phones are refused: check that the upstream runs and that no firewall drops its packets",
                    [.target: .described(place)])
            }
            log.error(
                "a PBX does not answer, so the daemon cannot register users at this PBX: check that the PBX runs and that no firewall drops its packets",
                [.target: .described(place)])
            changeUpstreamUsers(now: now) { $0.serverWentDown(at: place, now: $1, into: &$2) }
        case .up:
            if after > .zero {
                log.notice("a PBX answers again", [.target: .described(place), .duration: .duration(after)])
            }
            changeUpstreamUsers(now: now) { $0.serverCameBack(at: place, now: $1, into: &$2) }
        case .unknown: break
        }
    }

    // MARK: Users

    /// Reports to the registration client all users with a wakeable device: at start-up, and after a push provider is
    /// switched on or a domain is added.
    func findUpstreamUsers(now: Moment) {
        guard !upstreamUsers.pbxs.isEmpty else { return }
        guard !network.flows.haveNodes else { return searchUpstreamUsers(now: now) }
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

    /// Tells the registration client that a user has a new password in all domains with the given realm.
    func notePassword(of name: ByteString, realm: ByteString, now: Moment) {
        for number in upstreamUsers.numbers
        where access.digest.realm(for: upstreamUsers.pbxs[number].domain).account == realm {
            let pbx = upstreamUsers.pbxs[number]
            let aor = AddressOfRecord(user: name, host: pbx.domain)
            if registrar.bindings.lastSign(ofWakeable: aor) != nil { noteUpstreamUser(aor, now: now) }
        }
    }

    /// Ends the registration of a removed user at the PBX. The daemon keeps the password of the removed user until the
    /// PBX has confirmed the end of the registration.
    func upstreamUserRemoved(_ removed: DigestUser, now: Moment) {
        for number in upstreamUsers.numbers
        where access.digest.realm(for: upstreamUsers.pbxs[number].domain).account == removed.realm {
            let pbx = upstreamUsers.pbxs[number]
            guard upstreamUsers.agent.isActive,
                let user = upstreamUsers.user(AddressOfRecord(user: removed.name, host: pbx.domain))
            else { continue }
            if upstreamUsers.removed.count < UpstreamUsers.removedLimit { upstreamUsers.removed[user] = removed }
            changeUpstreamUsers(now: now) { $0.userEnded(user, .userRemoved, now: $1, into: &$2) }
            // The engine drops the password of a removed user if the registration client does not know the user.
            if upstreamUsers.agent.status(of: user) == nil { upstreamUsers.removed[user] = nil }
        }
    }

    // MARK: Answers to REGISTERs

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

/// Handles challenges and 2xx responses of a PBX, for requests from phones whose users the daemon registers at the PBX.
///
/// The PBX and the daemon ask for passwords in the same realm. A phone answers only one challenge in a realm, so either
/// the PBX or the daemon may challenge the phone. The daemon challenges a phone only if the PBX accepts the daemon's
/// requests without a password.
extension ProxyEngine {
    /// Whether the response is a challenge of the PBX that the phone must answer. If so, the method also notes that the
    /// PBX challenges phones.
    func pbxChallenges(_ leg: BranchLeg) -> Bool {
        guard !upstreamUsers.pbxs.isEmpty, !leg.call.isTrusted, let number = pbx(of: leg) else { return false }
        let asked = leg.call.sender == nil && upstreamUsers.pbxs[number].credence != .takesOurWord
        upstreamUsers.pbxs[number].credence = .asks
        return asked
    }

    private func pbx(of leg: BranchLeg) -> Int? {
        guard let place = leg.call.fork.branches[leg.branch].flow?.remote else { return nil }
        return upstreamUsers.numbers.first { number in
            upstreamUsers.pbxs[number].registers && upstreamUsers.pbxs[number].hops.contains { $0.endpoint == place }
        }
    }

    /// Notes that a PBX accepted a call or a message from a phone. If the PBX accepted the request without credentials,
    /// the PBX does not check passwords of phones. The daemon then challenges phones itself.
    func noteAcceptance(_ status: Status, of leg: BranchLeg) {
        guard !upstreamUsers.pbxs.isEmpty, status.code >= 180, status.code < 300, !leg.call.isTrusted,
            leg.call.sender == nil, settings.authenticates, let number = pbx(of: leg),
            upstreamUsers.pbxs[number].credence == .unknown,
            let request = revive(leg.call)?.request, request.method == .invite || request.method == .message,
            request.to.tag == nil, !request.frame.contains(.authorization),
            !request.frame.contains(.proxyAuthorization)
        else { return }
        takesOurWord(number)
    }
}

/// Applies changed PBX settings of domains while the daemon runs.
extension ProxyEngine {
    /// The servers of all PBXs at which users are registered, without the servers of the setting `upstream`.
    package var pbxServers: [UpstreamHealth.Server] {
        var servers: [UpstreamHealth.Server] = []
        for number in upstreamUsers.numbers {
            for server in upstreamUsers.pbxs[number].health.servers
            where !network.upstream.health.contains(server.hop.endpoint)
                && !servers.contains(where: { $0.hop.endpoint == server.hop.endpoint })
            {
                servers.append(server)
            }
        }
        return servers
    }

    /// Applies changed settings: ends the registrations of users of removed domains, and registers the users of new
    /// domains. If a domain has a new PBX, the domain is removed and added again.
    func upstreamRegistrationsChanged(since old: ProxySettings, now: Moment) {
        let (before, after) = (UpstreamUsers.wanted(old), UpstreamUsers.wanted(settings))
        var hasNew = false
        for gone in before
        where !after.contains(where: { $0.isSame(as: gone) }) {
            guard let number = upstreamUsers.number(of: gone.domain) else { continue }
            upstreamUsers.pbxs[number].isRetired = true
            guard let registrations = upstreamUsers.pbxs[number].registrations else { continue }
            changeUpstreamUsers(now: now) { $0.domainRemoved(registrations, now: $1, into: &$2) }
        }
        for new in after {
            guard let number = upstreamUsers.number(of: new.domain) else {
                upstreamUsers.add(new, settings)
                hasNew = true
                continue
            }
            if upstreamUsers.pbxs[number].upstream != new.upstream {
                // If only the spelling of a PBX's name has changed, its DNS records may differ, but the registrations
                // continue.
                upstreamUsers.pbxs[number].upstream = new.upstream
                lookUpPBX(number, now: now)
            }
            let domain = UpstreamUsers.domain(new.domain, settings)
            guard let registrations = upstreamUsers.pbxs[number].registrations,
                domain != UpstreamUsers.domain(new.domain, old)
            else { continue }
            changeUpstreamUsers(now: now) { agent, now, _ in agent.domainChanged(registrations, to: domain, now: now) }
        }
        guard hasNew else { return }
        findUpstreamUsers(now: now)
        upstreamUsersDue(now: now)
    }
}
