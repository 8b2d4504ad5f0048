import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// A node that stood still, and whose calls another node has taken over. The node with the call is node 0.
@Suite struct ClusterStandstillTests {
    private typealias Calls = ClusterCallTests

    /// The INVITEs that the nodes have sent, without retransmissions.
    private func invites(_ cluster: SimulatedCluster) -> [SimulatedCluster.Message] {
        var seen: Set<[UInt8]> = []
        return cluster.sent.filter { $0.request?.method == .invite && seen.insert($0.bytes).inserted }
    }

    private func cancel(_ callID: String) throws -> [UInt8] {
        let invite = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: callID, branch: callID)))
        return SIPText.hopRequest("CANCEL", for: invite)
    }

    private func statuses(_ cluster: SimulatedCluster, to endpoint: Endpoint) -> [Int] {
        cluster.sent.filter { $0.flow.remote == endpoint }.compactMap { $0.response.map { Int($0.status.code) } }
    }

    @Test func `the phone gets a call that another node has taken over once`() {
        let cluster = Calls.withPhone()
        Calls.invite(cluster, at: 0)
        cluster.settle()
        cluster.takeOver(0, by: 1)
        cluster.settle()
        cluster.sent = []
        Calls.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        cluster.pass(.seconds(1))
        #expect(invites(cluster).map(\.node) == [1])
        // The first node neither answers the caller nor waits.
        cluster.pass(.seconds(60))
        #expect(cluster.sent.allSatisfy { $0.node == 1 || $0.response == nil })
        #expect(cluster.engines[0].heldCalls(named: "call1").isEmpty)
    }

    @Test func `an INVITE that waits for the store is given away too, and its retransmission starts no second call`() {
        let cluster = Calls.withPhone()
        Calls.invite(cluster, at: 0)
        while cluster.held[0]?.isEmpty ?? true { #expect(cluster.performNext()) }
        cluster.takeOver(0, by: 1)
        Calls.invite(cluster, at: 0)
        cluster.settle()
        #expect(cluster.pushes.map(\.node) == [1])
        Calls.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        cluster.pass(.seconds(1))
        #expect(invites(cluster).count == 1)
    }

    @Test func `a CANCEL at the node that stood still ends the call at the other node`() throws {
        let cluster = Calls.withPhone()
        Calls.invite(cluster, at: 0)
        cluster.settle()
        cluster.takeOver(0, by: 1)
        cluster.settle()
        cluster.sent = []
        cluster.receive(try cancel("call1"), on: SimulatedCluster.udp(SimulatedCluster.pbx), at: 0)
        cluster.settle()
        #expect(statuses(cluster, to: SimulatedCluster.pbx).sorted() == [200, 487])
        Calls.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        #expect(invites(cluster).isEmpty)
    }

    @Test func `a call that the store still has for the node stays, and so does a call on a connection`() {
        let cluster = Calls.withPhone()
        cluster.receive(
            SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "tcp", branch: "tcp"),
            on: SimulatedCluster.tcp(SimulatedCluster.pbx, 7), at: 0)
        cluster.settle()
        Calls.invite(cluster, at: 0, callID: "late")
        cluster.settle()
        cluster.takeOver(0, by: 1, remaining: 1)
        cluster.settle()
        cluster.sent = []
        Calls.register(cluster, at: 0, cseq: 2, from: Endpoint(Calls.phone.address, 40_009))
        cluster.settle()
        let ids = invites(cluster).filter { $0.node == 0 }.compactMap { $0.request?.callID.string }
        // The other node continues the call of the connection too, and reaches the phone through this node.
        #expect(ids.sorted() == ["late", "tcp", "tcp"])
    }

    @Test func `a call that the store did not get stays`() {
        let cluster = Calls.withPhone()
        // The node knows the phone from an earlier call.
        Calls.invite(cluster, at: 0, callID: "earlier")
        cluster.settle()
        cluster.isStoreAway = true
        Calls.invite(cluster, at: 0)
        cluster.settle()
        cluster.isStoreAway = false
        cluster.takeOver(0, by: 1)
        cluster.settle()
        cluster.sent = []
        Calls.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        cluster.pass(.seconds(1))
        #expect(Set(invites(cluster).compactMap { $0.request?.callID.string }) == ["earlier", "call1"])
        #expect(invites(cluster).count == 2)
    }

    @Test func `an INVITE that may have waited during the standstill gets 503, and 430 on the link of the nodes`() {
        let cluster = SimulatedCluster { $0.call.skipPushWithin = .seconds(10) }
        Calls.register(cluster, at: 1)
        cluster.settle()
        cluster.sent = []
        cluster.standStill(1)
        Calls.invite(cluster, at: 1, callID: "direct")
        cluster.settle()
        #expect(statuses(cluster, to: SimulatedCluster.pbx).last == 503)
        Calls.invite(cluster, at: 0, callID: "linked")
        cluster.settle()
        #expect(invites(cluster).isEmpty)
        #expect(cluster.pushes.map(\.node) == [0])
        cluster.catchUp(1)
        Calls.invite(cluster, at: 1, callID: "next")
        cluster.settle()
        #expect(invites(cluster).compactMap { $0.request?.callID.string } == ["next"])
    }
}
