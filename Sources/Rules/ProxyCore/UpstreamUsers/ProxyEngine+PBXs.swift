import Addressing
import Bytes
import Calling
import ProxyPolicy
import Routing
import SIPGrammar
import Telemetry
import Timekeeping
import UpstreamRegistration

/// Looks up and checks the servers of the PBXs at which users are registered, and writes the log lines about these
/// users.
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
        let hops = withoutOurs(hops)
        if !hops.isEmpty { upstreamUsers.pbxs[number].hops = hops }
        carryOut(upstreamUsers.pbxs[number].health.found(hops, now: now.instant), of: number, now: now)
        let servers = hops.map { UpstreamServer(transport: $0.transport, endpoint: $0.endpoint) }
        if let registrations = upstreamUsers.pbxs[number].registrations {
            changeUpstreamUsers(now: now) { $0.serversFound(servers, of: registrations, now: $1, into: &$2) }
        }
        upstreamUsersDue(now: now)
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

    /// Notes that a server of a PBX is up, because a call to it got a response.
    func notePBXHeard(_ leg: BranchLeg, now: Moment) {
        guard leg.call.outgoing != nil, let flow = leg.call.fork.branches[leg.branch].flow else { return }
        pbxHeard(at: flow.remote, now: now)
    }

    /// Notes that a response to a REGISTER came from the server at this endpoint.
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
            // A server that never answered OPTIONS does not count as down, because it may still answer REGISTERs.
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

    // MARK: The log

    func tell(_ event: UpstreamEvent, now: Moment) {
        switch event {
        case .registered(let user, let after):
            log.info("the daemon has registered a user at the PBX", [.aor: aor(of: user), .duration: .duration(after)])
        case .refused(let user, .noPassword):
            noteUser(
                user, "a user is not registered at the PBX, because the daemon has no password of the user",
                UpstreamRefusal.noPassword.words, UpstreamRefusal.noPassword.advice, now: now)
        case .refused(let user, let refusal):
            if case .status = refusal { recheckPassword(of: user, now: now) }
            noteUser(
                user, "the PBX refuses to register a user, so calls do not reach the user's phones", refusal.words,
                refusal.advice,
                now: now)
        case .unknownUser(let user):
            noteUser(
                user, "the PBX refuses to register a user, so calls do not reach the user's phones",
                "the PBX has no such user (404)",
                "add the user at the PBX, then run sippushd upstream retry; otherwise the daemon tries again at the phone's next REGISTER after an hour",
                now: now)
        case .failed(let user, let status):
            noteUser(
                user, "the PBX did not register a user, so the daemon tries again later", "status \(status)",
                "look at the PBX's log for the REGISTERs of this daemon", now: now)
        case .notListed(let user):
            noteUser(
                user, "the PBX did not register a user, so the daemon tries again later",
                "the PBX accepted the REGISTER, but its 200 does not list the contact",
                "check whether the PBX allows the user another contact", now: now)
        case .lapsed(let user):
            noteUser(
                user, "a user's registration at the PBX expired before the daemon could renew it",
                "the registration ended before it could be renewed",
                "look at the earlier log lines about this PBX", now: now)
        case .ended(let user, let reason):
            upstreamUsers.removed[user] = nil
            if reason == .noSignOfLife {
                log.notice(
                    "the daemon ended a user's registration at the PBX, because no phone of the user registered within the time of keep-for",
                    [.aor: aor(of: user)])
            } else {
                log.info("the daemon ended a user's registration at the PBX", [.aor: aor(of: user)])
            }
        case .notEnded(let user, _):
            upstreamUsers.removed[user] = nil
            log.info(
                "the daemon could not end a user's registration at the PBX, so the registration lasts until it expires",
                [.aor: aor(of: user)])
        case .registersAgain(let upstream, let count, let sign):
            log.notice(
                "the daemon registers all users at the PBX again",
                [.target: name(of: upstream), .count: .number(count), .reason: .text(Self.reason(sign))])
        case .grantTooShort(let upstream, let seconds):
            log.warning(
                "the PBX grants registrations of only a few seconds, so some registrations expire before they are renewed: raise the shortest expiry in the PBX's settings",
                [.target: name(of: upstream), .duration: .duration(.seconds(Int64(seconds)))])
        case .refusesEverybody(let upstream, let pause):
            log.error(
                "the PBX refused many users in a row, so the daemon tries only one user after each pause: check digest.realm, the passwords, and whether the PBX bans this daemon",
                [.target: name(of: upstream), .duration: .duration(pause)])
        case .unchallenged(let upstream):
            if let number = upstreamUsers.number(of: upstream) { takesOurWord(number) }
            log.warning(
                "the PBX registers users without a password, so anybody who can send from this daemon's address can register as any user",
                [.target: name(of: upstream)])
        case .answersNoQuery(let upstream):
            log.info(
                "the PBX does not say which contacts are registered, so the daemon cannot notice a short restart of the PBX",
                [.target: name(of: upstream)])
        case .isBehind(let upstream):
            log.warning(
                "users wait for minutes until the daemon registers them at the PBX: raise register-upstream.*.rate",
                [.target: name(of: upstream)])
        case .serverFails(let upstream, let server):
            log.warning(
                "a server of the PBX answers REGISTERs with errors or not at all, so the daemon uses this server again only after a pause",
                [.target: .described(server.endpoint), .object: name(of: upstream)])
        case .serverAnswers(let upstream, let server):
            log.notice(
                "a server of the PBX answers REGISTERs again",
                [.target: .described(server.endpoint), .object: name(of: upstream)])
        }
    }

    private func noteUser(
        _ user: UpstreamUser, _ line: StaticString, _ reason: String, _ advice: String, now: Moment
    ) {
        guard let suppressed = upstreamUsers.lines.admit(now: now.instant) else { return }
        log.warning(
            line,
            [
                .aor: aor(of: user), .reason: .text(reason), .advice: .text(advice), .suppressed: .number(suppressed),
            ])
    }

    private func aor(of user: UpstreamUser) -> LogValue {
        upstreamUsers.aor(of: user).map { .described($0) } ?? .bytes(user.name)
    }

    private func name(of upstream: UpstreamNumber) -> LogValue {
        .bytes(upstreamUsers.agent.domain(upstream)?.domain ?? .empty)
    }

    private static func reason(_ sign: LossSign) -> String {
        switch sign {
        case .answersAgain: "it answers again after it was down"
        case .contactMissing: "a contact that must be there was missing"
        case .serverDown: "a server went down, and another server of the PBX is used"
        case .order: "an operator ordered it"
        }
    }
}
