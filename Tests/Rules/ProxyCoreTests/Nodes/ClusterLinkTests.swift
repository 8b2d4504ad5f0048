import Addressing
import Bytes
import ProxyCore
import PushDelivery
import SIPGrammar
import SIPMessage
import TestSupport
import Testing
import Timekeeping

/// Calls between two nodes whose connection ends, and phones that move or do not respond.
@Suite("Calls over the connections between nodes") struct ClusterLinkTests {
    private static let pbx = SimulatedCluster.udp(SimulatedCluster.pbx)

    /// A cluster with a call of node 0 at the phone, whose flow is at node 1; and the INVITE that the phone has got.
    private func withCall(nodes: Int = 2) throws -> (SimulatedCluster, SIPRequest) {
        let cluster = ClusterCallTests.withPhone(nodes: nodes)
        ClusterCallTests.invite(cluster, at: 0)
        cluster.settle()
        ClusterCallTests.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        return (cluster, try #require(cluster.sent.last { $0.request?.method == .invite }?.request))
    }

    private func respond(
        _ cluster: SimulatedCluster, _ status: Status, to invite: SIPRequest,
        from source: Endpoint = ClusterCallTests.phone
    ) {
        cluster.receive(
            SIPText.response(status, to: invite, tag: "bob", contact: "sip:bob@\(source)"),
            on: SimulatedCluster.udp(source), at: 1)
        cluster.settle()
    }

    private func answers(_ cluster: SimulatedCluster, _ status: Status) -> Int {
        cluster.sent.count { $0.flow.remote == SimulatedCluster.pbx && $0.response?.status == status }
    }

    private func cancel(_ cluster: SimulatedCluster) throws {
        let invite = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "call1", branch: "call1")))
        cluster.receive(SIPText.hopRequest("CANCEL", for: invite), on: Self.pbx, at: 0)
        cluster.settle()
    }

    @Test func `a phone's answer reaches the caller although the connection of its INVITE has ended`() throws {
        let (cluster, invite) = try withCall()
        respond(cluster, Status(code: 180), to: invite)
        cluster.endLink(openedBy: 0, to: 1)
        let before = answers(cluster, .ok)
        respond(cluster, .ok, to: invite)
        #expect(answers(cluster, .ok) == before + 1)
    }

    @Test func `a phone whose connection ends after the connection between the nodes gets a push, and no 500`() throws {
        let (cluster, invite) = try withCall()
        respond(cluster, Status(code: 180), to: invite)
        cluster.endLink(openedBy: 0, to: 1)
        cluster.close(SimulatedCluster.udp(ClusterCallTests.phone), at: 1)
        cluster.settle()
        #expect(answers(cluster, .serverError) == 0)
    }

    @Test func `an INVITE that is lost with its connection is sent again on a new connection`() {
        let cluster = ClusterCallTests.withPhone()
        ClusterCallTests.invite(cluster, at: 0)
        cluster.settle()
        cluster.cut = [[0, 1]]
        ClusterCallTests.register(cluster, at: 1, cseq: 2)
        cluster.pass(.milliseconds(500))
        cluster.cut = []
        #expect(!cluster.sent.contains { $0.request?.method == .invite })
        cluster.endLink(openedBy: 0, to: 1)
        #expect(cluster.sent.count { $0.request?.method == .invite && $0.node == 1 } == 1)
    }

    @Test func `a phone's refusal that is lost with its connection reaches the caller on a new connection`() throws {
        let (cluster, invite) = try withCall()
        cluster.cut = [[0, 1], [1, 0]]
        respond(cluster, 486, to: invite)
        #expect(answers(cluster, 486) == 0)
        cluster.cut = []
        cluster.endLink(openedBy: 0, to: 1)
        #expect(answers(cluster, 486) == 1)
    }

    @Test func `a CANCEL that is lost with its connection reaches the phone on a new connection`() throws {
        let (cluster, invite) = try withCall()
        respond(cluster, Status(code: 180), to: invite)
        cluster.cut = [[0, 1]]
        let request = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "call1", branch: "call1")))
        cluster.receive(
            SIPText.hopRequest("CANCEL", for: request), on: SimulatedCluster.udp(SimulatedCluster.pbx), at: 0)
        cluster.settle()
        #expect(!cluster.sent.contains { $0.request?.method == .cancel })
        cluster.cut = []
        cluster.endLink(openedBy: 0, to: 1)
        #expect(cluster.sent.count { $0.request?.method == .cancel && $0.node == 1 } == 1)
    }

    @Test func `a call that another node has taken over sends no second INVITE after the end of its connection`() throws
    {
        let (cluster, invite) = try withCall(nodes: 3)
        respond(cluster, Status(code: 180), to: invite)
        cluster.kill(0, takenOverBy: 2)
        cluster.settle()
        cluster.sent = []
        cluster.endLink(openedBy: 2, to: 1)
        #expect(!cluster.sent.contains { $0.request?.method == .invite })
        respond(cluster, .ok, to: invite)
        #expect(cluster.sent.contains { $0.response?.status == .ok && $0.flow.remote == SimulatedCluster.pbx })
    }

    @Test func `if the next connection ends at once too, the call waits for its phone again`() throws {
        let (cluster, _) = try withCall()
        cluster.sent = []
        for _ in 0..<2 { cluster.endLink(openedBy: 0, to: 1) }
        ClusterCallTests.register(cluster, at: 0, callID: "r2", from: Endpoint(IPAddress(v4: 0xc000_0209), 40_000))
        cluster.settle()
        #expect(cluster.sent.count { $0.request?.method == .invite && $0.node == 0 } == 1)
    }

    @Test(arguments: [Status.ok, 486])
    func `a phone's answer reaches the caller although the phone's node has restarted`(
        status: Status
    ) throws {
        let (cluster, invite) = try withCall()
        respond(cluster, Status(code: 180), to: invite)
        cluster.restart(1)
        let before = answers(cluster, status)
        respond(cluster, status, to: invite)
        #expect(answers(cluster, status) == before + 1)
    }

    @Test func `after a restart of the caller's node, a phone at another node gets no second INVITE`() throws {
        let (cluster, invite) = try withCall()
        respond(cluster, Status(code: 180), to: invite)
        cluster.sent = []
        cluster.restart(0)
        cluster.pass(.seconds(5))
        #expect(!cluster.sent.contains { $0.request?.method == .invite } && cluster.pushes.count == 1)
        respond(cluster, .ok, to: invite)
        #expect(answers(cluster, .ok) == 1)
    }

    @Test func `a REGISTER wakes its call although the refreshed row waits to be written`() {
        let cluster = ClusterCallTests.withPhone()
        cluster.losesRefreshes = true
        ClusterCallTests.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        cluster.pass(.milliseconds(9_990))
        ClusterCallTests.invite(cluster, at: 0)
        cluster.settle()
        cluster.sent = []
        // The rows of refreshed contacts go to the shell between the REGISTER and the answer of the store.
        ClusterCallTests.register(cluster, at: 1, cseq: 3)
        cluster.pass(.milliseconds(20))
        #expect(cluster.sent.contains { $0.node == 1 && $0.request?.method == .invite })
    }

    @Test func `a phone that registers elsewhere while its call's node restarts gets the call`() throws {
        let cluster = ClusterCallTests.withPhone()
        ClusterCallTests.invite(cluster, at: 0)
        cluster.settle()
        cluster.pass(.seconds(1))
        cluster.cut = [[0, 1]]
        ClusterCallTests.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        cluster.cut = []
        cluster.sent = []
        cluster.restart(0)
        #expect(cluster.sent.contains { $0.node == 1 && $0.request?.method == .invite })
    }

    @Test func `after a 430 of a node without a sign of life, the call waits for its phone`() throws {
        let (cluster, invite) = try withCall()
        respond(cluster, Status(code: 180), to: invite)
        cluster.engines[0].nodesChanged([], now: cluster.now)
        cluster.close(SimulatedCluster.udp(ClusterCallTests.phone), at: 1)
        cluster.settle()
        cluster.sent = []
        ClusterCallTests.register(cluster, at: 0, cseq: 3)
        cluster.settle()
        #expect(cluster.sent.contains { $0.node == 0 && $0.request?.method == .invite })
    }

    @Test func `a phone that moves repeats its answer from the new address`() throws {
        let (cluster, invite) = try withCall()
        respond(cluster, .ok, to: invite)
        let before = answers(cluster, .ok)
        let moved = Endpoint(IPAddress(v4: 0xc000_0206), 40_001)
        ClusterCallTests.register(cluster, at: 1, cseq: 3, from: moved)
        cluster.settle()
        respond(cluster, .ok, to: invite, from: moved)
        #expect(answers(cluster, .ok) == before + 1)
        respond(cluster, .ok, to: invite, from: Endpoint(IPAddress(v4: 0xc000_0207), 40_002))
        #expect(answers(cluster, .ok) == before + 1)
    }

    @Test func `a phone at another node that does not respond gets the cancelled call in its list of missed calls`()
        throws
    {
        let (cluster, _) = try withCall()
        try cancel(cluster)
        cluster.pass(.seconds(40))
        #expect(answers(cluster, .requestTerminated) >= 1)
        ClusterCallTests.register(cluster, at: 1, cseq: 3)
        cluster.settle()
        cluster.pass(.seconds(1))
        #expect(cluster.pushes.contains { if case .missedCalls = $0.push.push.message { true } else { false } })
    }

    @Test func `a phone at another node that rang gets no list of missed calls`() throws {
        let (cluster, invite) = try withCall()
        respond(cluster, Status(code: 180), to: invite)
        try cancel(cluster)
        respond(cluster, .requestTerminated, to: invite)
        ClusterCallTests.register(cluster, at: 1, cseq: 3)
        cluster.settle()
        cluster.pass(.seconds(1))
        #expect(!cluster.pushes.contains { if case .missedCalls = $0.push.push.message { true } else { false } })
    }

    @Test func `the store has a cancelled call until its phone has confirmed the CANCEL`() throws {
        let (cluster, invite) = try withCall()
        respond(cluster, Status(code: 180), to: invite)
        try cancel(cluster)
        #expect(cluster.held[0]?.count == 1)
        respond(cluster, .requestTerminated, to: invite)
        #expect(cluster.held[0]?.isEmpty == true)
    }

    @Test func `a BYE to a node that cannot be reached waits for the phone, and is not tried without a pause`() throws {
        let (cluster, invite) = try withCall()
        respond(cluster, .ok, to: invite)
        let answer = try #require(cluster.sent.last { $0.flow.remote == SimulatedCluster.pbx }?.response)
        let offered = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "call1", branch: "call1")))
        cluster.cut = [[0, 1]]
        cluster.receive(
            SIPText.dialogRequest(
                "BYE", cseq: 2, invite: offered, answer: answer, at: SimulatedCluster.pbx, branch: "bye1"),
            on: Self.pbx, at: 0)
        cluster.settle()
        let before = cluster.exchanged
        for _ in 0..<3 { cluster.cannotConnect(0, to: 1) }
        // The BYE is tried once more, because the connection may only have ended.
        #expect(cluster.exchanged <= before + 1)

        cluster.cut = []
        cluster.pass(.seconds(1))
        ClusterCallTests.register(cluster, at: 1, cseq: 3)
        cluster.settle()
        cluster.pass(.seconds(1))
        #expect(cluster.sent.contains { $0.request?.method == .bye && $0.flow.remote == ClusterCallTests.phone })
    }
}
