import Addressing
import Bytes
import LocationService
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Calls in a cluster of two nodes on one store: the PBX sends the INVITE to node 0, and the phone is at node 1.
@Suite struct ClusterCallTests {
    static let phone = Endpoint(IPAddress(v4: 0xc000_0205), 40_000)
    static let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))

    static func register(
        _ cluster: SimulatedCluster, at node: Int, cseq: Int = 1, callID: String = "r1", from source: Endpoint = phone,
        expires: Int = 3600
    ) {
        cluster.receive(
            SIPText.register(
                user: "bob", from: source, callID: callID, cseq: cseq, branch: "\(callID)x\(cseq)",
                contact: "<sip:bob@\(source);pn-provider=fcm;pn-param=p;pn-prid=tok1>", expires: expires),
            on: SimulatedCluster.udp(source), at: node)
    }

    static func invite(_ cluster: SimulatedCluster, at node: Int, callID: String = "call1") {
        cluster.receive(
            SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: callID, branch: callID),
            on: SimulatedCluster.udp(SimulatedCluster.pbx), at: node)
    }

    /// A cluster with bob's phone registered at node 1, some time ago.
    static func withPhone(
        storing: Bool = false, nodes: Int = 2, _ settings: @escaping (inout ProxySettings) -> Void = { _ in },
        change: (SimulatedCluster) -> Void = { _ in }
    ) -> SimulatedCluster {
        let cluster = SimulatedCluster(nodes: nodes) {
            $0.messages.store = storing
            settings(&$0)
        }
        change(cluster)
        register(cluster, at: 1)
        cluster.settle()
        cluster.pass(.seconds(60))
        cluster.sent = []
        return cluster
    }

    @Test("the store's contact begins its Path with the node that has the phone's flow")
    func pathNamesNode() throws {
        let cluster = SimulatedCluster()
        Self.register(cluster, at: 1)
        cluster.settle()
        #expect(cluster.sent.compactMap(\.response?.status) == [.ok])
        let row = try #require(cluster.disk.bindings.values.first)
        #expect(row.path.count == 1)
        let path = row.path[0].string
        #expect(path.hasPrefix("<sip:") && path.hasSuffix("@10.0.1.2:5071;transport=tls;lr>"))
        #expect(cluster.engines[1].bindings.binding(row.id)?.path == [])
    }

    @Test func `a contact that a phone has left does not replace the phone's new contact in the store`() throws {
        let cluster = SimulatedCluster()
        let moved = Endpoint(IPAddress(v4: 0xc000_0206), 40_000)
        Self.register(cluster, at: 1)
        cluster.settle()
        cluster.pass(.seconds(1))
        Self.register(cluster, at: 0, callID: "r2", from: moved)
        cluster.settle()
        // Another phone of the user registers at node 1, which has read the user before the first phone left.
        cluster.engines[1].nodesFound(waitingFor: Self.bob, ["n0"], now: cluster.now)
        cluster.take(from: 1)
        cluster.settle()
        let row = try #require(cluster.disk.bindings.values.first)
        #expect(cluster.disk.bindings.count == 1 && row.flow.remote == moved)
        #expect(row.path.first?.string.contains("@10.0.1.1:5071") == true && row.callID.string == "r2")
    }

    @Test func `calls that wait at one node use up a user's limit at all nodes`() {
        let cluster = Self.withPhone(nodes: 3) { $0.limits.callsPerAccount = 8 }
        func answer(at node: Int, _ callID: String) -> UInt16? {
            Self.invite(cluster, at: node, callID: callID)
            cluster.settle()
            return cluster.sent.last { $0.node == node && $0.response?.callID.string == callID }?.response?.status.code
        }
        for number in 0..<4 { #expect(answer(at: 0, "a\(number)") == 100) }
        // Until the next sign of life, another node does not know the calls.
        #expect(answer(at: 1, "b0") == 100)
        cluster.giveSigns()
        // The PBX names the same caller for all calls, and one caller may use half of a user's calls.
        #expect(answer(at: 1, "b1") == 486)
        #expect(answer(at: 2, "c1") == 486)
        // The share of an ended node ends after five seconds.
        cluster.pass(.seconds(6))
        #expect(answer(at: 2, "c2") == 100)
    }

    @Test func `a dead push token does not delete the contact that its phone has registered at another node since`()
        throws
    {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        cluster.settle()
        let push = try #require(cluster.pushes.first).push
        cluster.receive(
            SIPText.register(
                user: "bob", from: Self.phone, callID: "r1", cseq: 2, branch: "r1x2",
                contact: "<sip:bob@\(Self.phone);pn-provider=fcm;pn-param=p;pn-prid=tok2>"),
            on: SimulatedCluster.udp(Self.phone), at: 1)
        while cluster.disk.bindings.values.first?.contact.string.contains("tok2") == false, cluster.performNext() {}
        cluster.engines[0].pushHappened(EngineBench.event(push, .tokenDead(since: nil)), now: cluster.now)
        cluster.take(from: 0)
        cluster.settle()
        #expect(cluster.disk.bindings.values.map { $0.contact.string.contains("tok2") } == [true])
        // Without a new contact, the dead token ends the contact.
        Self.invite(cluster, at: 0, callID: "call2")
        cluster.settle()
        let second = try #require(cluster.pushes.last).push
        cluster.engines[0].pushHappened(EngineBench.event(second, .tokenDead(since: nil)), now: cluster.now)
        cluster.take(from: 0)
        cluster.settle()
        #expect(cluster.disk.bindings.isEmpty)
    }

    @Test func `a contact that the store has without confirming it is stored again at the phone's next REGISTER`() {
        let cluster = SimulatedCluster()
        for (cseq, isLost) in [(1, true), (2, true), (3, false), (4, true)] {
            cluster.losesConfirmations = isLost
            Self.register(cluster, at: 1, cseq: cseq)
            cluster.settle()
        }
        // The last REGISTER only refreshes the contact, which is confirmed now, so that it needs no commit.
        let statuses = cluster.sent.compactMap(\.response?.status)
        #expect(statuses == [.serviceUnavailable, .serviceUnavailable, .ok, .ok])
        #expect(cluster.disk.bindings.count == 1)
    }

    @Test func `a phone whose node ends after the phone has woken gets another push for its call at another node`() {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        cluster.settle()
        Self.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        #expect(cluster.sent.count { $0.request?.method == .invite && $0.node == 1 } == 1)
        cluster.kill(
            1, takenOverBy: 0,
            until: {
                cluster.endLink(openedBy: 0, to: 1)
                cluster.cannotConnect(0, to: 1)
            })
        cluster.settle()
        cluster.pass(.seconds(4))
        #expect(cluster.pushes.map(\.node) == [0, 0])
        Self.register(cluster, at: 0, cseq: 3)
        cluster.settle()
        #expect(
            cluster.sent.count { $0.request?.method == .invite && $0.node == 0 && $0.flow.remote == Self.phone } == 1)
        // No further push follows.
        cluster.pass(.seconds(10))
        #expect(cluster.pushes.count == 2)
    }

    @Test func `a phone that has moved from the ended node in time gets no other push`() {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        cluster.settle()
        Self.register(cluster, at: 0, cseq: 2)
        cluster.settle()
        cluster.kill(1, takenOverBy: 0)
        cluster.settle()
        cluster.pass(.seconds(4))
        #expect(cluster.pushes.count == 1)
    }

    @Test("a REGISTER at one node wakes the INVITE that another node holds")
    func wakesAcrossNodes() throws {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        cluster.settle()
        #expect(cluster.pushes.count == 1)
        #expect(cluster.waiting[Self.bob] == [0])
        #expect(!cluster.sent.contains { $0.request?.method == .invite })

        Self.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        let delivered = try #require(cluster.sent.last { $0.request?.method == .invite })
        #expect(delivered.node == 1 && delivered.flow.remote == Self.phone)
        let invite = try #require(delivered.request)
        #expect(invite.routes.isEmpty)
        #expect(invite.frame.values(of: .recordRoute).count == 1)
        #expect(invite.frame.values(of: .recordRoute).allSatisfy { $0.string.contains("10.0.1.1:5060") })
    }

    @Test("the answer, the ACK and a BYE of either side find their way through the nodes", arguments: [true, false])
    func wholeCall(phoneEnds: Bool) throws {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        cluster.settle()
        Self.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        let invite = try #require(cluster.sent.last { $0.request?.method == .invite }?.request)
        cluster.receive(
            SIPText.response(.ok, to: invite, tag: "bob", contact: "sip:bob@\(Self.phone)"),
            on: SimulatedCluster.udp(Self.phone), at: 1)
        cluster.settle()
        let answer = try #require(
            cluster.sent.last { $0.response?.status == .ok && $0.response?.cseq.method == .invite })
        #expect(answer.node == 0 && answer.flow.remote == SimulatedCluster.pbx)
        let offered = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "call1", branch: "call1")))
        let response = try #require(answer.response)

        cluster.receive(
            SIPText.dialogRequest(
                "ACK", cseq: 1, invite: offered, answer: response, at: SimulatedCluster.pbx, branch: "ack1"),
            on: SimulatedCluster.udp(SimulatedCluster.pbx), at: 0)
        cluster.settle()
        let ack = try #require(cluster.sent.last { $0.request?.method == .ack })
        #expect(ack.node == 1 && ack.flow.remote == Self.phone)

        if phoneEnds {
            cluster.receive(
                Self.byeOfCallee(invite, tag: "bob"), on: SimulatedCluster.udp(Self.phone), at: 1)
            cluster.settle()
            let bye = try #require(cluster.sent.last { $0.request?.method == .bye })
            #expect(bye.node == 1 && bye.flow.remote == SimulatedCluster.pbx)
        } else {
            cluster.receive(
                SIPText.dialogRequest(
                    "BYE", cseq: 2, invite: offered, answer: response, at: SimulatedCluster.pbx, branch: "bye1"),
                on: SimulatedCluster.udp(SimulatedCluster.pbx), at: 0)
            cluster.settle()
            let bye = try #require(cluster.sent.last { $0.request?.method == .bye })
            #expect(bye.node == 1 && bye.flow.remote == Self.phone)
        }
    }

    @Test("an awake phone at another node rings soon after its REGISTER, without a push")
    func ringsThroughOtherNode() throws {
        let cluster = SimulatedCluster { $0.call.skipPushWithin = .seconds(10) }
        Self.register(cluster, at: 1)
        cluster.settle()
        cluster.sent = []
        Self.invite(cluster, at: 0)
        cluster.settle()
        #expect(cluster.pushes.isEmpty)
        #expect(cluster.sent.last { $0.request?.method == .invite }?.node == 1)
    }

    @Test("a node that has restarted since counts as gone, so the phone gets a push at once")
    func restartedNodeIsGone() throws {
        let cluster = SimulatedCluster()
        Self.register(cluster, at: 1)
        cluster.settle()
        cluster.engines[0].nodesChanged(
            [PeerNode(name: "n1", place: SimulatedCluster.peer(1).place, run: 99)], now: cluster.now)
        Self.invite(cluster, at: 0)
        cluster.settle()
        #expect(cluster.pushes.count == 1)
        #expect(cluster.exchanged == 0)
    }

    @Test("an operator's question reads the user from the store, and names the node of each device")
    func operatorsQuestion() throws {
        let cluster = SimulatedCluster()
        Self.register(cluster, at: 1)
        cluster.settle()
        let asked = cluster.engines[0]
        #expect(asked.targets(of: Self.bob, now: cluster.now).isEmpty)
        asked.lookUp(Self.bob, for: LookTicket(7))
        cluster.take(from: 0)
        cluster.settle()
        #expect(cluster.looks.map(\.ticket) == [LookTicket(7)] && cluster.looks.allSatisfy(\.isFresh))
        let target = try #require(asked.targets(of: Self.bob, now: cluster.now).first)
        #expect(asked.nodeName(of: target) == "n1")
        let there = try #require(cluster.engines[1].targets(of: Self.bob, now: cluster.now).first)
        #expect(cluster.engines[1].nodeName(of: there) == "n1")
        cluster.isStoreAway = true
        asked.lookUp(Self.bob, for: LookTicket(8))
        cluster.take(from: 0)
        cluster.settle()
        #expect(cluster.looks.last?.isFresh == false)
        asked.nodesChanged([], now: cluster.now)
        #expect(asked.nodeName(of: target) == nil)
    }

    @Test("an operator's question is asked again if this node changes the user meanwhile")
    func operatorsQuestionDuringChange() throws {
        let cluster = SimulatedCluster()
        let asked = cluster.engines[0]
        asked.lookUp(Self.bob, for: LookTicket(1))
        Self.register(cluster, at: 0)
        cluster.settle()
        #expect(cluster.looks.count == 1)
        #expect(asked.targets(of: Self.bob, now: cluster.now).count == 1)
    }

    @Test("a node that has gone is known for ten minutes, unless it returns")
    func goneNodesAreKnown() throws {
        let cluster = SimulatedCluster()
        let engine = cluster.engines[0]
        let peer = SimulatedCluster.peer(1)
        #expect(engine.nodeName == "n0")
        #expect(engine.otherNodes(now: cluster.now).map(\.isAlive) == [true])
        engine.nodesChanged([], now: cluster.now)
        let gone = engine.otherNodes(now: cluster.now)
        #expect(gone.map(\.node) == [peer] && gone.map(\.isAlive) == [false])
        engine.nodesChanged([peer], now: cluster.now)
        #expect(engine.otherNodes(now: cluster.now).map(\.isAlive) == [true])
        engine.nodesChanged([], now: cluster.now)
        let later = Moment(instant: cluster.now.instant + .seconds(601), date: cluster.now.date + .seconds(601))
        #expect(engine.otherNodes(now: later).isEmpty)
        // A node under its name at another address replaces the node that has gone.
        let moved = PeerNode(name: "n1", place: ByteString("10.0.9.9:5071"), run: 9)
        engine.nodesChanged([moved], now: cluster.now)
        #expect(engine.otherNodes(now: cluster.now).map(\.node) == [moved])
    }

    @Test("without the link between the nodes, the call is delivered as soon as the phone comes to the call's node")
    func cutLink() throws {
        let cluster = Self.withPhone()
        cluster.cut = [[0, 1]]
        Self.invite(cluster, at: 0)
        cluster.settle()
        Self.register(cluster, at: 0, cseq: 2, from: Endpoint(Self.phone.address, 40_001))
        cluster.settle()
        let delivered = try #require(cluster.sent.last { $0.request?.method == .invite })
        #expect(delivered.node == 0 && delivered.flow.remote.port == 40_001)
    }

    @Test("a lost NOTIFY is made up for by the next look into the store")
    func pollsStore() throws {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        cluster.settle()
        cluster.cut = [[0, 1]]
        Self.register(cluster, at: 1, cseq: 2, from: Endpoint(Self.phone.address, 40_002))
        cluster.settle()
        cluster.cut = []
        cluster.pass(.milliseconds(300))
        let delivered = try #require(cluster.sent.last { $0.request?.method == .invite })
        #expect(delivered.node == 1 && delivered.flow.remote.port == 40_002)
    }

    @Test("the announcement that something waits ends some seconds after the call")
    func announcementEnds() throws {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        cluster.settle()
        let invite = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "call1", branch: "call1")))
        cluster.receive(
            SIPText.hopRequest("CANCEL", for: invite), on: SimulatedCluster.udp(SimulatedCluster.pbx), at: 0)
        cluster.settle()
        #expect(cluster.sent.contains { $0.response?.status == .requestTerminated })
        cluster.pass(.seconds(60))
        #expect(cluster.waiting[Self.bob] == [])
    }

    @Test("a CANCEL ends an INVITE that still waits for the store")
    func cancelledWhileReading() throws {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        let invite = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "call1", branch: "call1")))
        cluster.receive(
            SIPText.hopRequest("CANCEL", for: invite), on: SimulatedCluster.udp(SimulatedCluster.pbx), at: 0)
        cluster.settle()
        #expect(cluster.sent.contains { $0.response?.status == .requestTerminated })
        #expect(cluster.pushes.isEmpty)
    }

    @Test("while the store is away, an INVITE for an unknown user gets 503, and a known user's phone is called")
    func storeAway() throws {
        let cluster = Self.withPhone()
        cluster.isStoreAway = true
        Self.invite(cluster, at: 0)
        cluster.settle()
        #expect(cluster.sent.last { $0.response?.status.isFinal == true }?.response?.status == .serviceUnavailable)
        Self.invite(cluster, at: 1, callID: "call2")
        cluster.settle()
        #expect(cluster.pushes.map(\.node) == [1])
        Self.register(cluster, at: 0, cseq: 9, callID: "new")
        cluster.settle()
        #expect(cluster.sent.last?.response?.status == .serviceUnavailable)
    }

    @Test("while the store is away, a sleeping phone gets its call when it registers on its flow, although it gets 503")
    func storeAwayWakes() throws {
        let cluster = Self.withPhone()
        let elsewhere = Endpoint(Self.phone.address, 40_001)
        cluster.isStoreAway = true
        Self.invite(cluster, at: 1)
        cluster.settle()
        #expect(cluster.pushes.count == 1)
        Self.register(cluster, at: 1, callID: "r2", from: elsewhere)
        cluster.settle()
        #expect(!cluster.sent.contains { $0.request?.method == .invite })
        Self.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        #expect(cluster.sent.compactMap(\.response?.status).filter { $0 == .serviceUnavailable }.count == 2)
        let invites = cluster.sent.filter { $0.request?.method == .invite }
        #expect(invites.map(\.flow.remote) == [Self.phone])
    }

    static func message(_ cluster: SimulatedCluster, at node: Int, _ number: Int = 1) {
        cluster.receive(
            SIPText.bytes(
                [
                    "MESSAGE sip:bob@example.net SIP/2.0",
                    "Via: SIP/2.0/UDP \(SimulatedCluster.pbx);rport;branch=z9hG4bKm\(number)",
                    "From: <sip:103@example.net>;tag=m", "To: <sip:bob@example.net>", "Call-ID: message\(number)",
                    "CSeq: 1 MESSAGE", "Max-Forwards: 70", "Content-Type: text/plain",
                ], body: "hello"), on: SimulatedCluster.udp(SimulatedCluster.pbx), at: node)
        cluster.settle()
    }

    @Test("a stored MESSAGE goes to the phone that registers at another node minutes later, and only once")
    func messages() throws {
        let cluster = Self.withPhone(storing: true)
        Self.message(cluster, at: 0, 1)
        Self.message(cluster, at: 1, 2)
        cluster.pass(.seconds(300))
        #expect(cluster.disk.messages.count == 2)
        Self.register(cluster, at: 1, cseq: 5)
        cluster.settle()
        cluster.pass(.milliseconds(600))
        for message in cluster.sent where message.request?.method == .message {
            #expect(message.node == 1 && message.flow.remote == Self.phone)
            let request = try #require(message.request)
            cluster.receive(SIPText.response(.ok, to: request, tag: "p"), on: message.flow, at: 1)
        }
        cluster.settle()
        let messages = cluster.sent.compactMap(\.request).filter { $0.method == .message }
        #expect(Set(messages.map(\.callID.string)).count == 2)
        #expect(cluster.disk.messages.isEmpty)
    }

    @Test("without the link between the nodes, the phone gets a stored MESSAGE at the node that has the message")
    func messagesWithoutLink() throws {
        let cluster = Self.withPhone(storing: true, change: { $0.cut = [[0, 1]] })
        Self.message(cluster, at: 0)
        cluster.pass(.seconds(60))
        Self.register(cluster, at: 0, cseq: 5)
        cluster.settle()
        #expect(cluster.sent.contains { $0.request?.method == .message && $0.node == 0 })
    }

    @Test("after the end of a node, another node goes on with its stored messages")
    func messagesTakenOver() throws {
        let cluster = Self.withPhone(storing: true)
        Self.message(cluster, at: 0)
        cluster.pass(.seconds(300))
        cluster.kill(0, takenOverBy: 1)
        cluster.settle()
        Self.register(cluster, at: 1, cseq: 5)
        cluster.settle()
        #expect(cluster.sent.contains { $0.request?.method == .message && $0.node == 1 })
        #expect(cluster.disk.messages.count == 1)
    }

    @Test("a stranger's REGISTER causes no question to the store without a password, or after too many wrong ones")
    func strangers() throws {
        let cluster = SimulatedCluster { $0.authenticates = true }
        func register(_ number: Int, _ extra: [String]) -> Status? {
            cluster.receive(
                SIPText.register(
                    user: "bob", from: Self.phone, callID: "guess", cseq: number, branch: "guess\(number)",
                    contact: "<sip:bob@\(Self.phone)>", extra: extra),
                on: SimulatedCluster.udp(Self.phone), at: 0)
            cluster.settle()
            return cluster.sent.last?.response?.status
        }
        // A nonce of an earlier run, which a binding in the store may have kept.
        let nonce = String(repeating: "_", count: 28)
        let password = [
            "Authorization: Digest username=\"bob\", realm=\"example.net\", nonce=\"\(nonce)\", uri=\"sip:example.net\", response=\"\(String(repeating: "0", count: 32))\""
        ]
        #expect(register(1, []) == .unauthorized)
        #expect(cluster.reads == 0)
        #expect(register(2, password) == .unauthorized)
        #expect(cluster.reads == 1)
        cluster.isStoreAway = true
        #expect(register(3, password) == .serviceUnavailable)
        cluster.isStoreAway = false
        for _ in 0..<100 { cluster.engines[0].loginFailed(from: Self.phone.address, for: Self.bob, now: cluster.now) }
        _ = register(4, password)
        #expect(cluster.reads == 2)
    }

    @Test("after the end of a node, another node goes on with its call")
    func takeover() throws {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        cluster.settle()
        #expect(cluster.held[0]?.count == 1)
        cluster.kill(0, takenOverBy: 1)
        cluster.settle()
        #expect(cluster.pushes.map(\.node) == [0, 1])
        Self.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        let delivered = try #require(cluster.sent.last { $0.request?.method == .invite })
        #expect(delivered.node == 1 && delivered.flow.remote == Self.phone)
    }

    @Test("a call that has ended is not taken over")
    func endedCallStaysEnded() throws {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        cluster.settle()
        let invite = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "call1", branch: "call1")))
        cluster.receive(
            SIPText.hopRequest("CANCEL", for: invite), on: SimulatedCluster.udp(SimulatedCluster.pbx), at: 0)
        cluster.settle()
        #expect(cluster.held[0]?.isEmpty == true)
        cluster.receive(
            SIPText.invite(to: "nobody", from: "103", at: SimulatedCluster.pbx, callID: "x", branch: "x"),
            on: SimulatedCluster.udp(SimulatedCluster.pbx), at: 0)
        cluster.settle()
        #expect(cluster.held[0]?.isEmpty == true)
    }

    @Test("a phone that signs out at one node is no longer called by the other")
    func signOut() throws {
        let cluster = Self.withPhone()
        Self.invite(cluster, at: 0)
        cluster.settle()
        Self.register(cluster, at: 1, cseq: 2, expires: 0)
        cluster.settle()
        cluster.pass(.milliseconds(300))
        #expect(cluster.disk.bindings.isEmpty)
        #expect(cluster.sent.last { $0.response?.status.isFinal == true }?.response?.status == .temporarilyUnavailable)
    }

    @Test("a stranger cannot use a flow token, because only nodes reach the nodes' listener")
    func strangersTokenIsRefused() throws {
        let cluster = Self.withPhone()
        let path = try #require(cluster.disk.bindings.values.first?.path.first)
        let text = SIPText.invite(
            to: "bob", from: "eve", at: Endpoint(IPAddress(v4: 0xc633_6401), 5060), callID: "evil", branch: "evil",
            extra: ["Route: \(path)"])
        cluster.receive(
            text, on: SimulatedCluster.udp(Endpoint(IPAddress(v4: 0xc633_6401), 5060)), at: 1)
        cluster.settle()
        #expect(!cluster.sent.contains { $0.flow.remote == Self.phone && $0.request?.method == .invite })
    }

    @Test("a node refuses another node's request without one of its flow tokens")
    func nodeNeedsToken() throws {
        let cluster = Self.withPhone()
        let flow = Flow(
            transport: .tls, listener: 2, connection: 100, remote: Endpoint(SimulatedCluster.address(0), 40_000))
        _ = cluster.engines[1].namesProved(["node"], on: flow)
        cluster.receive(
            SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "c", branch: "c"), on: flow, at: 1)
        cluster.settle()
        #expect(!cluster.sent.contains { $0.request?.method == .invite })
    }

    /// The callee's BYE, along the Record-Route of the INVITE.
    private static func byeOfCallee(_ invite: SIPRequest, tag: String) -> [UInt8] {
        let routes = invite.frame.values(of: .recordRoute).map { "Route: \($0)" }
        return SIPText.bytes(
            [
                "BYE sip:103@\(SimulatedCluster.pbx) SIP/2.0",
                "Via: SIP/2.0/UDP \(phone);rport;branch=z9hG4bKbye",
                "From: \(invite.frame.firstValue(of: .to)?.string ?? "");tag=\(tag)",
                "To: \(invite.frame.firstValue(of: .from)?.string ?? "")",
                "Call-ID: \(invite.callID)", "CSeq: 1 BYE", "Max-Forwards: 70",
            ] + routes)
    }
}

/// Races between an INVITE at one node and a REGISTER at another, in random orders of all effects.
@Suite struct ClusterRaceTests {
    @Test("no order of an INVITE and a REGISTER loses the wake or doubles the INVITE", arguments: 0..<500)
    func race(seed: Int) throws {
        let cluster = SimulatedCluster(seed: UInt64(seed))
        ClusterCallTests.register(cluster, at: seed % 2)
        cluster.settle()
        cluster.pass(.seconds(60))
        cluster.sent = []
        // The phone moves to another address with half of the seeds, and to the other node with a quarter.
        let phone = Endpoint(ClusterCallTests.phone.address, seed % 4 < 2 ? 40_000 : 40_010)
        let node = seed % 8 < 6 ? seed % 2 : 1 - seed % 2
        if seed % 16 < 8 {
            ClusterCallTests.invite(cluster, at: 0)
            ClusterCallTests.register(cluster, at: node, cseq: 2, from: phone)
        } else {
            ClusterCallTests.register(cluster, at: node, cseq: 2, from: phone)
            ClusterCallTests.invite(cluster, at: 0)
        }
        cluster.settle()
        cluster.pass(.milliseconds(600))
        let invites = cluster.sent.filter { $0.request?.method == .invite }
        // A phone that registered before the INVITE may get a push, and then comes back again.
        if invites.isEmpty {
            #expect(cluster.pushes.count == 1)
            ClusterCallTests.register(cluster, at: node, cseq: 3, from: phone)
            cluster.settle()
            cluster.pass(.milliseconds(600))
        }
        let last = cluster.sent.compactMap { message in
            message.request.map { (flow: message.flow.remote, request: $0) }
        }.filter { $0.request.method == .invite }
        #expect(last.contains { $0.flow == phone })
        // Copies of one INVITE have one branch, and each flow gets one INVITE.
        let branches = Set(last.compactMap { $0.request.via.branch?.string })
        #expect(branches.count == Set(last.map(\.flow)).count)
    }
}
