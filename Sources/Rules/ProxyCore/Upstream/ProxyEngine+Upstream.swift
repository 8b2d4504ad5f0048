import Addressing
import Bytes
import Calling
import ProxyPolicy
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

extension ProxyEngine {
    /// Starts the upstream checks that the settings demand, and discards the results of earlier checks.
    func watchUpstream(since start: Instant) {
        network.upstream.health = UpstreamHealth(settings.upstreamCheck, isUsed: settings.upstream != nil, now: start)
        network.lookups.upstreamChanged()
        let isNamed = settings.upstreamCheck.interval > .zero && ownPlace != nil
        network.upstream.ownName = AdvertisedName(isUsed: isNamed, now: start)
    }

    func upstreamDue(now: Moment) {
        guard let deadline = network.upstream.nextDeadline, deadline <= now.instant else { return }
        if network.upstream.ownName.isDue(now: now.instant) { lookUpOwnName() }
        carryOut(network.upstream.health.due(now: now.instant) { isSilent($0) }, now: now)
    }

    /// Whether a forwarded request has got no response yet.
    func isSilent(_ client: ClientTransactionID) -> Bool {
        guard let leg = sip.legs.branch(client), !leg.isFormer(client), leg.call.fork.acceptsBranches else {
            return false
        }
        return !leg.call.fork.branches[leg.branch].wasHeard
    }

    private func carryOut(_ orders: [UpstreamHealth.Order], now: Moment) {
        for order in orders {
            switch order {
            case .lookUp: lookUpUpstream(now: now)
            case .probe(let hop): probe(hop, now: now)
            case .giveUp(let client): giveUp(client, now: now)
            case .tell(let place, let state, let after): tell(place, state, after: after)
            case .tellName(let isKnown):
                let name = settings.upstream?.host ?? .empty
                if isKnown {
                    log.notice("the upstream's host name has an address again", [.target: .bytes(name)])
                } else {
                    log.error(
                        "the upstream's host name cannot be resolved, so calls from phones fail",
                        [.target: .bytes(name)])
                }
            }
        }
    }

    private func tell(_ place: Endpoint, _ state: UpstreamHealth.State, after: Duration) {
        switch state {
        case .down:
            log.error(
                "the upstream does not answer, so calls from phones are refused: check that the upstream runs and that no firewall drops its packets",
                [.target: .described(place)])
        case .up where after > .zero:
            log.notice("the upstream answers again", [.target: .described(place), .duration: .duration(after)])
        case .up: log.info("the upstream answers", [.target: .described(place)])
        case .unknown: break
        }
    }

    // MARK: For operators

    /// The reason why calls from phones fail, in words; `nil` if the upstream is not known to be down.
    package var upstreamTrouble: String? {
        let health = network.upstream.health
        guard health.isAway else { return nil }
        guard !health.isNameless else { return "the upstream's host name cannot be resolved" }
        let places = health.servers.map { "\($0.hop.endpoint)" }.joined(separator: ", ")
        return "the upstream does not answer: \(places)"
    }

    // MARK: Calls

    /// Notes that an upstream server is up, because the server has sent a response.
    func noteUpstreamHeard(_ leg: BranchLeg, now: Moment) {
        guard leg.call.outgoing != nil, let flow = leg.call.fork.branches[leg.branch].flow else { return }
        carryOut(network.upstream.health.heard(at: flow.remote, now: now.instant), now: now)
    }

    /// Gives up a request to an upstream server that is down: another server gets the request, or the caller gets 503.
    func giveUp(_ client: ClientTransactionID, now: Moment) {
        guard let leg = sip.legs.branch(client) else { return }
        withTransactions { $0.giveUp(client, now: now.instant, into: &$1) }
        guard !retry(client, leg, .otherServers, now: now) else { return }
        update(leg.call, now: now) { $0.givenUp(leg.branch) }
    }

    // MARK: DNS look-ups of the upstream's names

    private func lookUpUpstream(now: Moment) {
        guard let hop = settings.upstream else { return }
        if let (transport, endpoint) = hop.numeric {
            let places = network.upstream.withoutOurs(
                [ResolvedHop(transport: transport, endpoint: endpoint)], identity, log)
            return carryOut(network.upstream.health.found(places, now: now.instant), now: now)
        }
        lookUp(hop, for: .upstream)
    }

    func upstreamFound(_ hops: [ResolvedHop], now: Moment) {
        network.upstream.resolved(to: hops)
        let hops = network.upstream.withoutOurs(hops, identity, log)
        carryOut(network.upstream.health.found(hops, now: now.instant), now: now)
        upstreamDue(now: now)
    }

    // MARK: Probes

    private func probe(_ hop: ResolvedHop, now: Moment) {
        let host = settings.upstream?.host ?? .empty
        let port = settings.upstream?.port
        let name = port.map { ByteString("\(host):\($0)") } ?? host
        if !ask(.upstream(hop.endpoint), hop, as: name, now: now) {
            upstreamIsSilent(at: hop.endpoint, wasSent: false, now: now)
        }
    }

    func upstreamAnswered(at place: Endpoint, now: Moment) {
        carryOut(network.upstream.health.heard(at: place, isProbe: true, now: now.instant), now: now)
    }

    func upstreamIsSilent(at place: Endpoint, wasSent: Bool, now: Moment) {
        carryOut(network.upstream.health.probeEnded(at: place, wasSent: wasSent, now: now.instant), now: now)
    }

    /// Sends an OPTIONS to a hop; returns false if no listener can reach the hop, or the transaction table is full.
    func ask(_ question: Question, _ hop: ResolvedHop, as name: ByteString, now: Moment) -> Bool {
        guard let listener = identity.listener(for: hop.transport, to: hop.endpoint.address, preferring: nil) else {
            return false
        }
        let flow = Flow(
            transport: hop.transport, listener: listener.number, connection: 0, remote: hop.endpoint, server: hop.server
        )
        return ask(
            question, at: ByteString("sip:\(name)"), as: listener.sentBy, contact: listener.sentBy, on: flow,
            by: listener,
            now: now)
    }

    // MARK: Our own name

    /// The advertised host name of this daemon, with its hop; `nil` if the daemon advertises only addresses.
    private var ownPlace: (name: ByteString, hop: NextHop)? {
        for listener in identity.listeners where listener.transport == .udp || listener.transport == .tcp {
            guard let hop = NextHop(listener.sentBy.string), hop.numeric == nil else { continue }
            return (
                listener.sentBy,
                NextHop(host: hop.host, port: hop.port, transport: listener.transport, isSecure: false)
            )
        }
        return nil
    }

    private func lookUpOwnName() {
        guard let place = ownPlace else { return }
        lookUp(place.hop, for: .ownName)
    }

    func ownNameFound(_ hops: [ResolvedHop], now: Moment) {
        guard let name = ownPlace?.name else { return }
        let (places, isNews) = network.upstream.ownName.found(hops.map(\.endpoint))
        tellOfOwnName(isNews: isNews)
        for hop in hops where places.contains(hop.endpoint) && !ask(.ourselves(hop.endpoint), hop, as: name, now: now) {
            ownNameFailed(at: hop.endpoint)
        }
    }

    func ownNameAnswered() { tellOfOwnName(isNews: network.upstream.ownName.answered()) }

    func ownNameFailed(at place: Endpoint) { tellOfOwnName(isNews: network.upstream.ownName.failed(place)) }

    private func tellOfOwnName(isNews: Bool) {
        guard isNews, let name = ownPlace?.name else { return }
        switch network.upstream.ownName.state {
        case .unresolved:
            log.warning(
                "the daemon cannot resolve the host name in the setting 'advertise'; a PBX that cannot resolve the name cannot send BYE to this daemon",
                [.target: .bytes(name)])
        case .silent:
            log.warning(
                "a test request to the address in the setting 'advertise' did not reach this daemon: correct the setting, unless a NAT blocks only the test request",
                [.target: .bytes(name)])
        case .reached:
            log.info(
                "a test request to the address in the setting 'advertise' has reached this daemon",
                [.target: .bytes(name)])
        case .unknown: break
        }
    }
}
