import Addressing
import Bytes
import ProxyCore
import PushDelivery
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Lists of missed calls in a cluster of two nodes.
@Suite struct ClusterMissedCallTests {
    @Test("a phone that comes to another node while a call waits gets its list of missed calls once")
    func oneList() throws {
        let cluster = ClusterCallTests.withPhone()
        ClusterCallTests.invite(cluster, at: 0, callID: "missed")
        cluster.settle()
        let invite = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "missed", branch: "missed")))
        cluster.receive(
            SIPText.hopRequest("CANCEL", for: invite), on: SimulatedCluster.udp(SimulatedCluster.pbx), at: 0)
        cluster.settle()
        cluster.pass(.seconds(10))
        ClusterCallTests.invite(cluster, at: 0)
        cluster.settle()

        ClusterCallTests.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        cluster.pass(.milliseconds(300))
        let lists = cluster.pushes.filter { if case .missedCalls = $0.push.push.message { true } else { false } }
        #expect(lists.map(\.node) == [1])
        #expect(cluster.sent.contains { $0.request?.method == .invite && $0.node == 1 })
    }
}
