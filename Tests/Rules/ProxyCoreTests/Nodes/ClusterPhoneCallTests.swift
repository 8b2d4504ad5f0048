import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Calls of phones with passwords, in a cluster whose node ends. The caller alice is at node 0, and bob's phone at node 1.
@Suite("Calls of phones whose node ends") struct ClusterPhoneCallTests {
    private static let alice = Endpoint(IPAddress(v4: 0xc000_0207), 40_000)
    private static let phone = SimulatedCluster.udp(ClusterCallTests.phone)

    private func withCall(over flow: Flow) -> SimulatedCluster {
        let cluster = SimulatedCluster(nodes: 3) { $0.authenticates = true }
        cluster.users = TestDigest.users("alice", "bob", "eve")
        register(cluster, at: 1, cseq: 1)
        cluster.pass(.seconds(60))
        cluster.sent = []
        let invite = SIPText.invite(to: "bob", from: "alice", at: flow.remote, callID: "call1", branch: "a")
        prove(invite, as: "alice", on: flow, at: 0, cluster)
        return cluster
    }

    private func register(_ cluster: SimulatedCluster, at node: Int, cseq: Int) {
        let request = SIPText.register(
            user: "bob", from: ClusterCallTests.phone, callID: "r\(node)", cseq: cseq, branch: "r\(node)x\(cseq)",
            contact: "<sip:bob@\(ClusterCallTests.phone);pn-provider=fcm;pn-param=p;pn-prid=tok1>")
        prove(request, as: "bob", on: Self.phone, at: node, cluster)
    }

    /// Sends a request, and the same request with the answer to the challenge.
    private func prove(_ request: [UInt8], as user: String, on flow: Flow, at node: Int, _ cluster: SimulatedCluster) {
        cluster.receive(request, on: flow, at: node)
        cluster.settle()
        guard let challenge = cluster.sent.last(where: { $0.flow == flow })?.response else { return }
        cluster.receive(TestDigest.answer(challenge, to: request, as: user), on: flow, at: node)
        cluster.settle()
    }

    /// An INVITE with another From tag, so that it is no second copy of a known INVITE.
    private static func retagged(_ invite: [UInt8]) -> [UInt8] {
        Array(String(decoding: invite, as: UTF8.self).replacing("tag=fcall1", with: "tag=\(invite.count)").utf8)
    }

    private func invites(_ cluster: SimulatedCluster) -> [SIPRequest] {
        cluster.sent.filter { $0.flow.remote == ClusterCallTests.phone }.compactMap(\.request)
            .filter { $0.method == .invite }
    }

    private func statuses(_ cluster: SimulatedCluster, of node: Int) -> [Int] {
        cluster.sent.filter { $0.node == node && $0.flow.remote == Self.alice }.compactMap {
            $0.response.map { Int($0.status.code) }
        }
    }

    @Test(arguments: [1, 2]) func `a call over UDP waits on at the node that takes over`(successor: Int) throws {
        let cluster = withCall(over: SimulatedCluster.udp(Self.alice))
        #expect(cluster.pushes.map(\.node) == [0] && cluster.held[0]?.count == 1)
        cluster.kill(0, takenOverBy: successor)
        cluster.settle()
        #expect(cluster.pushes.map(\.node) == [0, successor])
        register(cluster, at: successor, cseq: 2)
        let invite = try #require(invites(cluster).last)
        #expect(invites(cluster).count == 1)
        cluster.receive(
            SIPText.response(.ok, to: invite, tag: "bob", contact: "sip:bob@\(ClusterCallTests.phone)"),
            on: Self.phone, at: successor)
        cluster.settle()
        #expect(statuses(cluster, of: successor).last == 200)
        #expect(cluster.held[successor]?.isEmpty == true)
    }

    @Test func `a call over a connection becomes a missed call, because its caller has lost the connection`() {
        let cluster = withCall(over: SimulatedCluster.tcp(Self.alice, 7))
        #expect(cluster.pushes.map(\.node) == [0] && cluster.held[0]?.count == 1)
        cluster.kill(0, takenOverBy: 1)
        cluster.settle()
        #expect(cluster.held[1]?.isEmpty == true)
        register(cluster, at: 1, cseq: 2)
        cluster.pass(.seconds(10))
        #expect(invites(cluster).isEmpty)
        let lists = cluster.pushes.filter { if case .missedCalls = $0.push.push.message { true } else { false } }
        #expect(lists.map(\.node) == [1])
    }

    @Test func `an answered or cancelled call is not stored any more`() throws {
        let cluster = withCall(over: SimulatedCluster.udp(Self.alice))
        let request = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "alice", at: Self.alice, callID: "call1", branch: "na")))
        let text = String(decoding: SIPText.hopRequest("CANCEL", for: request), as: UTF8.self)
        cluster.receive(
            Array(text.replacing("CSeq: 1 CANCEL", with: "CSeq: 2 CANCEL").utf8),
            on: SimulatedCluster.udp(Self.alice), at: 0)
        cluster.settle()
        #expect(cluster.held[0]?.isEmpty == true)
    }

    @Test func `a phone cannot end the stored call of another caller by its Call-ID`() {
        let cluster = withCall(over: SimulatedCluster.udp(Self.alice))
        // A PBX, and another phone, call with the Call-ID of the phone's call.
        let pbx = SIPText.invite(
            to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "call1", branch: "pbx")
        cluster.receive(Self.retagged(pbx), on: SimulatedCluster.udp(SimulatedCluster.pbx), at: 0)
        cluster.settle()
        let eve = Endpoint(IPAddress(v4: 0xc000_0208), 40_000)
        let own = SIPText.invite(to: "bob", from: "eve", at: eve, callID: "call1", branch: "e")
        prove(Self.retagged(own), as: "eve", on: SimulatedCluster.udp(eve), at: 0, cluster)
        let keys = Set(cluster.held[0]?.map(\.key.callID.string) ?? [])
        #expect(keys == ["call1", "call1\nalice@example.net", "call1\neve@example.net"])
    }

    @Test func `a node that was only cut from the store ends the calls that another node has taken for lost`() {
        let cluster = withCall(over: SimulatedCluster.tcp(Self.alice, 7))
        cluster.takeOver(0, by: 1)
        cluster.settle()
        #expect(statuses(cluster, of: 0).last == 487)
        #expect(cluster.held[0]?.isEmpty != false && cluster.held[1]?.isEmpty == true)
    }

    @Test func `the CANCEL of a phone whose call was given away reaches the other node`() throws {
        let flow = SimulatedCluster.udp(Self.alice)
        let cluster = withCall(over: flow)
        cluster.takeOver(0, by: 1)
        cluster.settle()
        let request = try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "alice", at: Self.alice, callID: "call1", branch: "na")))
        let text = String(decoding: SIPText.hopRequest("CANCEL", for: request), as: UTF8.self)
        let cancel = Array(text.replacing("CSeq: 1 CANCEL", with: "CSeq: 2 CANCEL").utf8)
        let stranger = SimulatedCluster.udp(Endpoint(IPAddress(v4: 0xc000_0299), 9))
        cluster.receive(cancel, on: stranger, at: 0)
        cluster.settle()
        #expect(cluster.held[1]?.count == 1)
        cluster.receive(cancel, on: flow, at: 0)
        cluster.settle()
        #expect(statuses(cluster, of: 1).last == 487 && cluster.held[1]?.isEmpty == true)
    }

    @Test func `a call without a checked password is not stored`() {
        let cluster = SimulatedCluster(nodes: 2) { $0.authenticates = true }
        cluster.users = TestDigest.users("alice", "bob")
        register(cluster, at: 1, cseq: 1)
        let flow = SimulatedCluster.udp(Self.alice)
        cluster.receive(
            SIPText.invite(to: "bob", from: "alice", at: Self.alice, callID: "call1", branch: "a"), on: flow, at: 0)
        cluster.settle()
        #expect(cluster.held[0]?.isEmpty != false && cluster.waiting[ClusterCallTests.bob]?.isEmpty != false)
    }
}
