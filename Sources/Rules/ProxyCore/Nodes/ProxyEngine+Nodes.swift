import Addressing
import Bytes
import Calling
import LocationService
import Messaging
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import UpstreamRegistration
import Waking

/// Exchanges requests with other nodes of the cluster. A node sends a request to a phone at another node by the Path in
/// the phone's contact. The Path names the other node and the phone's flow (RFC 3327, RFC 5626 section 5).
extension ProxyEngine {
    // MARK: Requests of other nodes

    /// Handles a request of another node. The request is for a phone whose flow is at this node, or it is the notice
    /// that a phone has registered at the other node.
    func nodeRequestReceived(_ incoming: IncomingRequest, now: Moment) {
        let request = incoming.request
        network.flows.nodes?.sent(request.via, on: incoming.flow)
        if request.method == .notify, request.frame.firstValue(of: .event).map({ $0.hasPrefix("reg") }) == true {
            return registrationNoticed(incoming, now: now)
        }
        // The call of a CANCEL that another node passes on may be at a third node.
        if request.method == .cancel, request.routes.isEmpty { return refuse(incoming, .callDoesNotExist, now: now) }
        if isRefusedAsLate(incoming, now: now) { return }
        guard let (flow, binding, routes) = ownFlow(in: request) else {
            return refuse(incoming, .forbidden, because: .forgedRoute, now: now)
        }
        output.counters.count(.nodeRequest)
        guard !flow.isClosed, flow.transport == .udp || flow.isConnection else {
            return refuse(incoming, .flowFailed, now: now)
        }
        guard let (incoming, call) = startProxying(incoming, to: [nil], now: now) else { return }
        if request.method == .invite { sendTrying(incoming, now: now) }
        var edits = RequestEdits(requestURI: request.uri.text, via: .empty, maxForwards: 70)
        edits.routes = routes
        transmit(incoming, edits, for: 0, of: call, on: flow, device: binding, alternatives: [], now: now)
    }

    /// Forwards another node's ACK of a 2xx to a phone at this node.
    func nodeACKReceived(_ incoming: IncomingRequest, now: Moment) {
        let request = incoming.request
        guard let (flow, _, routes) = ownFlow(in: request), !flow.isClosed, let listener = identity.listener(for: flow),
            let number = sip.makeClientTransaction()
        else { return }
        defer { sip.discard(number) }
        var edits = RequestEdits(
            requestURI: request.uri.text, via: via(for: number, listener: listener, incoming),
            maxForwards: (request.maxForwards ?? 71) &- 1)
        edits.routes = routes
        edits.topViaAddition = incoming.viaAddition
        act(.send(request.forwarded(edits).bytes, on: flow))
    }

    /// This node's flow that the topmost Route names, the binding of its phone, and the Route values after it.
    private func ownFlow(in request: SIPRequest) -> (flow: Flow, binding: DeviceID?, routes: [ByteString])? {
        guard let nodes = network.flows.nodes, let first = request.routes.first,
            case .own(let flow)? = nodes.place(of: first.uri)
        else { return nil }
        return (flow, nodes.ownBinding(of: first.uri), RouteSet.texts(of: request.routes.dropFirst()))
    }

    // MARK: Phones that register at another node

    /// Tells the nodes at which something waits for a user's phones that a phone has registered here (RFC 3680).
    ///
    /// The store must first have the phone's last REGISTER, because the other nodes read the contact there.
    func nodesWait(_ names: [String], forPhonesOf aor: AddressOfRecord, now: Moment) {
        // Another node may wait although the store does not know it, and then looks for the refreshed row by itself.
        let rows = registrar.recentRows(of: aor, withWritten: !names.isEmpty, now: now).filter {
            !network.flows.isAtOtherNode($0.path) && !network.flows.hasLostNode($0.path)
        }
        let ticket = network.waiting.waits(aor, for: names)
        guard !rows.isEmpty else { return noticeCommitted(ticket, now: now) }
        act(.commit(rows.map { .binding(.refresh($0)) }, ticket))
    }

    func noticeCommitted(_ ticket: CommitTicket, now: Moment) {
        guard let notice = network.waiting.committed(ticket), let nodes = network.flows.nodes else { return }
        for peer in notice.nodes.compactMap(nodes.peer(named:)) {
            notify(peer, aboutPhonesOf: notice.aor, nodes, now: now)
        }
    }

    /// Tells all other living nodes that the phones of a user have changed here.
    func notifyNodes(aboutPhonesOf aor: AddressOfRecord, now: Moment) {
        guard let nodes = network.flows.nodes else { return }
        for known in nodes.known(now: now.instant) where known.isAlive {
            notify(known.node, aboutPhonesOf: aor, nodes, now: now)
        }
    }

    private func notify(_ peer: PeerNode, aboutPhonesOf aor: AddressOfRecord, _ nodes: Nodes, now: Moment) {
        guard let flow = nodes.flow(to: peer), let listener = identity.listener(nodes.own.listener),
            let client = sip.makeClientTransaction()
        else { return }
        let notice = RegistrationNotice(
            of: aor, to: peer, from: nodes.own, via: via(for: client, listener: listener, loopHash: 0),
            number: functions.random())
        output.counters.count(.nodeNoticeSent)
        sip.legs.start(client, Question.node)
        withTransactions { $0.start(client, request: notice.outgoing, on: flow, now: now.instant, into: &$1) }
    }

    /// Handles the notice of another node that a phone has registered there.
    private func registrationNoticed(_ incoming: IncomingRequest, now: Moment) {
        refuse(incoming, .ok, now: now)
        output.counters.count(.nodeNoticeReceived)
        let uri = incoming.request.to.uri
        guard let user = uri.user else { return }
        let aor = AddressOfRecord(user: user.percentDecoded(), host: uri.host.lowercased())
        let isRegistered = upstreamUsers.agent.isActive && upstreamUsers.user(aor) != nil
        if isRegistered { readUpstreamUser(aor) } else { readWaiting([aor]) }
    }

    /// Reads users for whose phones something waits, because a phone may have registered at another node.
    private func readWaiting(_ users: [AddressOfRecord]) {
        if case .asks(let question) = registrar.reads.hold(.waiting, concerning: users.map { .user($0) }) {
            act(.readUsers(question, waiting: nil))
        }
    }

    // MARK: Users for whose phones something waits

    /// Notes that the store gets the announcement that something waits here for phones of a user.
    func waits(forPhonesOf aor: AddressOfRecord, now: Moment) {
        network.waiting.announced(aor.compacted(), now: now.instant)
        armNodes(now: now)
    }

    /// Tells the store that something waits for a user's phones.
    func announce(_ aor: AddressOfRecord, now: Moment) {
        guard case .asks(let question) = registrar.reads.hold(.waiting, concerning: [.user(aor)]) else { return }
        waits(forPhonesOf: aor, now: now)
        act(.readUsers(question, waiting: Announcement(aor: aor.compacted(), invite: nil)))
    }

    func armNodes(now: Moment) {
        guard network.flows.haveNodes, network.waiting.armsTimer() else { return }
        _ = output.timers.schedule(.nodesDue, at: now.instant + Self.pollPause)
    }

    /// The pause between two questions to the store about the users for whose phones something waits. The NOTIFY of the
    /// other node comes earlier, but can be lost.
    private static let pollPause: Duration = .milliseconds(250)

    /// Asks the store about the users for whose phones something waits, and withdraws the announcements of all other
    /// users.
    func nodesDue(now: Moment) {
        network.waiting.timerFired()
        var users = Set<AddressOfRecord>()
        for device in wakes.waitedFor {
            if let aor = registrar.bindings.aor(of: device) { users.insert(aor) }
        }
        let (polled, again, over) = network.waiting.due(waking: users, now: now.instant) { aor in
            !messages.queue(of: aor).isEmpty
        }
        if !over.isEmpty { act(.endWaiting(over)) }
        if !polled.isEmpty { readWaiting(polled) }
        for aor in again { announce(aor, now: now) }
        armNodes(now: now)
    }
}
