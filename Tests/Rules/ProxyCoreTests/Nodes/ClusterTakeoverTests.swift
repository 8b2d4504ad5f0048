import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import SIPMessage
import TestSupport
import Testing
import Timekeeping

/// Calls whose node ends while phones ring. Another node continues them with the INVITEs that the phones have.
@Suite("Calls of an ended node, at the node that takes over") struct ClusterTakeoverTests {
    private static let pbx = SimulatedCluster.udp(SimulatedCluster.pbx)
    private static let phone = SimulatedCluster.udp(ClusterCallTests.phone)
    private static let ringing = Status(code: 180)

    /// A cluster of three nodes with a call of node 0, for which the phone rings at `home`; and the phone's INVITE.
    private func ringing(at home: Int) throws -> (SimulatedCluster, SIPRequest) {
        let cluster = SimulatedCluster(nodes: 3)
        ClusterCallTests.register(cluster, at: home)
        cluster.settle()
        cluster.pass(.seconds(60))
        ClusterCallTests.invite(cluster, at: 0)
        cluster.settle()
        ClusterCallTests.register(cluster, at: home, cseq: 2)
        cluster.settle()
        let invite = try #require(invites(cluster).last?.request)
        respond(cluster, Self.ringing, to: invite, at: home)
        cluster.pass(.seconds(5))
        cluster.sent = []
        return (cluster, invite)
    }

    private func respond(_ cluster: SimulatedCluster, _ status: Status, to request: SIPRequest, at node: Int) {
        cluster.receive(
            SIPText.response(status, to: request, tag: "bob", contact: "sip:bob@\(ClusterCallTests.phone)"),
            on: Self.phone, at: node)
        cluster.settle()
    }

    private func invites(_ cluster: SimulatedCluster) -> [SimulatedCluster.Message] {
        cluster.sent.filter { $0.request?.method == .invite && $0.flow.remote == ClusterCallTests.phone }
    }

    /// The nodes that have sent the caller a response to the INVITE.
    private func answerers(_ cluster: SimulatedCluster, _ status: Status) -> [Int] {
        cluster.sent.filter {
            $0.flow.remote == SimulatedCluster.pbx && $0.response?.status == status
                && $0.response?.cseq.method == .invite
        }.map(\.node)
    }

    private func callersInvite() throws -> SIPRequest {
        try #require(
            SIPText.readRequest(
                SIPText.invite(to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "call1", branch: "call1")))
    }

    @Test(arguments: [1, 2])
    func `a ringing phone at another node gets no second INVITE, and its answer reaches the caller`(
        successor: Int
    ) throws {
        let (cluster, invite) = try ringing(at: 1)
        cluster.kill(0, takenOverBy: successor)
        cluster.settle()
        cluster.pass(.seconds(10))
        #expect(invites(cluster).isEmpty && cluster.pushes.count == 1)
        #expect(answerers(cluster, Self.ringing).allSatisfy { $0 == successor })
        #expect(!answerers(cluster, Self.ringing).isEmpty)
        respond(cluster, .ok, to: invite, at: 1)
        #expect(answerers(cluster, .ok) == [successor])
        #expect(cluster.held[successor]?.isEmpty == true)
    }

    @Test(arguments: [1, 2]) func `the caller's CANCEL at the new node reaches the phone`(successor: Int) throws {
        let (cluster, invite) = try ringing(at: 1)
        cluster.kill(0, takenOverBy: successor)
        cluster.settle()
        cluster.receive(SIPText.hopRequest("CANCEL", for: try callersInvite()), on: Self.pbx, at: successor)
        cluster.settle()
        let cancel = try #require(cluster.sent.last { $0.request?.method == .cancel }?.request)
        #expect(cancel.via.branch == invite.via.branch)
        respond(cluster, .requestTerminated, to: invite, at: 1)
        #expect(answerers(cluster, .requestTerminated) == [successor])
    }

    @Test(arguments: [1, 2]) func `a CANCEL that comes before the takeover ends the call`(successor: Int) throws {
        let (cluster, invite) = try ringing(at: 1)
        let cancel = SIPText.hopRequest("CANCEL", for: try callersInvite())
        cluster.kill(
            0, takenOverBy: successor,
            until: {
                for _ in 0..<3 { cluster.receive(cancel, on: Self.pbx, at: successor) }
                cluster.settle()
                #expect(cluster.sent.isEmpty)
            })
        cluster.settle()
        #expect(cluster.sent.last { $0.request?.method == .cancel }?.request?.via.branch == invite.via.branch)
        respond(cluster, .requestTerminated, to: invite, at: 1)
        #expect(answerers(cluster, .requestTerminated) == [successor])
        #expect(cluster.sent.count { $0.response?.cseq.method == .cancel && $0.node == successor } == 1)
        #expect(cluster.pushes.count == 1 && cluster.held[successor]?.isEmpty == true)
    }

    private static let otherPBX = SimulatedCluster.udp(Endpoint(IPAddress(v4: 0x0a00_0004), 5060))

    /// Gives the two PBXs a tenant each; the phone belongs to the tenant of the first PBX.
    private static func separates(_ settings: inout ProxySettings) {
        var (own, other) = (TenantSettings(), TenantSettings())
        own.trusted = [TrustedPeer("10.0.0.2")].compactMap { $0 }
        other.trusted = [TrustedPeer("10.0.0.4")].compactMap { $0 }
        settings.domains = ["example.net", "b.example"].map { ByteString($0) }
        settings.tenants = Tenants(["example.net": own, "b.example": other], trusted: [])
        settings.trusted = settings.tenants.allPeers
    }

    @Test(arguments: [false, true]) func `an early CANCEL of another tenant's PBX neither stops a call nor its CANCEL`(
        isCancelled: Bool
    ) throws {
        let cluster = ClusterCallTests.withPhone(nodes: 3, Self.separates)
        ClusterCallTests.invite(cluster, at: 0)
        cluster.settle()
        #expect(cluster.pushes.count == 1)
        let cancel = SIPText.hopRequest("CANCEL", for: try callersInvite())
        cluster.kill(
            0, takenOverBy: 2,
            until: {
                cluster.receive(cancel, on: Self.otherPBX, at: 2)
                if isCancelled { cluster.receive(cancel, on: Self.pbx, at: 2) }
                cluster.settle()
            })
        cluster.settle()
        let ends = cluster.sent.filter { $0.response?.cseq.method == .cancel && $0.node == 2 }
        #expect(ends.first { $0.flow.remote == Self.otherPBX.remote }?.response?.status == .callDoesNotExist)
        #expect(ends.first { $0.flow.remote == Self.pbx.remote }?.response?.status == (isCancelled ? .ok : nil))
        #expect(answerers(cluster, .requestTerminated) == (isCancelled ? [2] : []))
        // The call waits on, and its phone gets a second push.
        #expect(cluster.pushes.count { $0.node == 2 } == (isCancelled ? 0 : 1))
        ClusterCallTests.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        #expect(invites(cluster).count == (isCancelled ? 0 : 1))
    }

    @Test(arguments: [false, true])
    func `a CANCEL of another tenant's PBX neither ends a call whose users are being read nor its CANCEL`(
        isCancelled: Bool
    ) throws {
        let cluster = ClusterCallTests.withPhone(nodes: 3, Self.separates)
        let cancel = SIPText.hopRequest("CANCEL", for: try callersInvite())
        ClusterCallTests.invite(cluster, at: 0)
        cluster.receive(cancel, on: Self.otherPBX, at: 0)
        if isCancelled { cluster.receive(cancel, on: Self.pbx, at: 0) }
        cluster.settle()
        #expect(cluster.pushes.count == (isCancelled ? 0 : 1))
        #expect(answerers(cluster, .requestTerminated) == (isCancelled ? [0] : []))
        #expect(cluster.sent.contains { $0.flow == Self.otherPBX && $0.response?.status == .callDoesNotExist })
    }

    @Test func `a call with a very long Call-ID is not stored, because its key would not fit into the database`() throws
    {
        let cluster = ClusterCallTests.withPhone()
        let long = String(repeating: "c", count: 1_001)
        ClusterCallTests.invite(cluster, at: 0, callID: long)
        cluster.settle()
        #expect(cluster.pushes.count == 1 && cluster.held[0]?.isEmpty != false)
        ClusterCallTests.invite(cluster, at: 0, callID: "short")
        cluster.settle()
        #expect(cluster.held[0]?.map(\.callID.string) == ["short"])
    }

    @Test func `the CANCELs of one PBX do not take the places of another PBX's CANCELs`() throws {
        let other = try #require(TrustedPeer("10.0.0.4"))
        let cluster = SimulatedCluster(nodes: 2) { $0.trusted.append(other) }
        for number in 0..<300 {
            let invite = try #require(
                SIPText.readRequest(
                    SIPText.invite(
                        to: "bob", from: "103", at: SimulatedCluster.pbx, callID: "c\(number)", branch: "c\(number)")))
            cluster.receive(SIPText.hopRequest("CANCEL", for: invite), on: Self.pbx, at: 1)
        }
        cluster.settle()
        // The CANCELs without a place are answered at once.
        #expect(cluster.sent.count == 50)
        cluster.sent = []
        cluster.receive(SIPText.hopRequest("CANCEL", for: try callersInvite()), on: Self.otherPBX, at: 1)
        cluster.settle()
        #expect(cluster.sent.isEmpty)
    }

    @Test(arguments: [1, 2]) func `a call that was cancelled before its node ended, ends at the new node`(
        successor: Int
    ) throws {
        let (cluster, invite) = try ringing(at: 1)
        cluster.receive(SIPText.hopRequest("CANCEL", for: try callersInvite()), on: Self.pbx, at: 0)
        cluster.settle()
        cluster.kill(0, takenOverBy: successor)
        cluster.settle()
        #expect(invites(cluster).isEmpty)
        respond(cluster, .requestTerminated, to: invite, at: 1)
        #expect(answerers(cluster, .requestTerminated) == [successor])
        #expect(cluster.held[successor]?.isEmpty == true && cluster.pushes.count == 1)
    }

    @Test func `a CANCEL without a call is answered when no takeover can come any more`() throws {
        let cluster = SimulatedCluster(nodes: 3)
        cluster.receive(SIPText.hopRequest("CANCEL", for: try callersInvite()), on: Self.pbx, at: 1)
        cluster.settle()
        #expect(cluster.sent.isEmpty)
        cluster.pass(.seconds(9))
        #expect(cluster.sent.map { $0.response?.status } == [.callDoesNotExist])
    }

    @Test func `a call whose ring time passes before the takeover ends for its caller, and phones get it as missed`()
        throws
    {
        let cluster = ClusterCallTests.withPhone()
        ClusterCallTests.invite(cluster, at: 0)
        cluster.settle()
        cluster.pass(.seconds(20))
        cluster.kill(0, takenOverBy: 1, until: { cluster.pass(.seconds(15)) })
        cluster.settle()
        cluster.pass(.seconds(1))
        #expect(cluster.pushes.count == 1)
        #expect(Set(answerers(cluster, .temporarilyUnavailable)) == [1])
        ClusterCallTests.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        cluster.pass(.seconds(10))
        #expect(cluster.pushes.count == 2)
    }

    @Test func `a phone at a node that has just started gets its call when the call's node knows the new node`() throws
    {
        let cluster = ClusterCallTests.withPhone()
        ClusterCallTests.invite(cluster, at: 0)
        cluster.settle()
        cluster.engines[0].nodesChanged([], now: cluster.now)
        ClusterCallTests.register(cluster, at: 1, cseq: 2)
        cluster.settle()
        cluster.pass(.seconds(1))
        #expect(invites(cluster).isEmpty)
        cluster.engines[0].nodesChanged([SimulatedCluster.peer(1)], now: cluster.now)
        cluster.take(from: 0)
        cluster.settle()
        #expect(invites(cluster).map(\.node) == [1])
    }

    @Test func `the phone answers after its node has sent the answer to the ended node`() throws {
        let (cluster, invite) = try ringing(at: 1)
        cluster.kill(0, takenOverBy: 2, until: { self.respond(cluster, .ok, to: invite, at: 1) })
        cluster.settle()
        #expect(answerers(cluster, .ok).isEmpty)
        // A phone repeats its 2xx until the ACK.
        respond(cluster, .ok, to: invite, at: 1)
        #expect(answerers(cluster, .ok) == [2])
    }

    @Test func `a ringing phone of the ended node takes the INVITE back, and rings again at its new node`() throws {
        let (cluster, invite) = try ringing(at: 0)
        cluster.kill(0, takenOverBy: 1)
        cluster.settle()
        #expect(cluster.pushes.map(\.node) == [0, 1])
        #expect(invites(cluster).isEmpty)
        ClusterCallTests.register(cluster, at: 1, cseq: 3)
        cluster.settle()
        let second = try #require(invites(cluster).last?.request)
        #expect(second.via.branch != invite.via.branch)
        respond(cluster, .loopDetected, to: second, at: 1)
        let cancel = try #require(cluster.sent.last { $0.request?.method == .cancel }?.request)
        #expect(cancel.via.branch == invite.via.branch)
        respond(cluster, .requestTerminated, to: invite, at: 1)
        let third = try #require(invites(cluster).last?.request)
        #expect(third.via.branch != second.via.branch)
        respond(cluster, .ok, to: third, at: 1)
        #expect(answerers(cluster, .ok) == [1])
        #expect(answerers(cluster, .loopDetected).isEmpty)
    }

    @Test func `a ringing phone of the ended node can answer with its old INVITE`() throws {
        let (cluster, invite) = try ringing(at: 0)
        cluster.kill(0, takenOverBy: 1)
        cluster.settle()
        ClusterCallTests.register(cluster, at: 1, cseq: 3)
        cluster.settle()
        respond(cluster, .ok, to: invite, at: 1)
        #expect(answerers(cluster, .ok) == [1])
    }

    @Test func `a second node that takes the call over continues it, too`() throws {
        let (cluster, invite) = try ringing(at: 1)
        cluster.kill(0, takenOverBy: 2)
        cluster.settle()
        #expect(cluster.held[2]?.count == 1)
        cluster.kill(2, takenOverBy: 1)
        cluster.settle()
        cluster.pass(.seconds(10))
        #expect(invites(cluster).isEmpty)
        respond(cluster, .ok, to: invite, at: 1)
        #expect(answerers(cluster, .ok) == [1])
    }

    @Test func `a call without a written state begins again`() throws {
        let (cluster, _) = try ringing(at: 1)
        cluster.forgetChanges(at: 0)
        cluster.kill(0, takenOverBy: 2)
        cluster.settle()
        #expect(invites(cluster).count == 1 || cluster.pushes.count == 2)
    }

    @Test func `a call that the caller has repeated at the new node is not taken over as well`() throws {
        let (cluster, _) = try ringing(at: 1)
        cluster.kill(0, takenOverBy: 2, until: { ClusterCallTests.invite(cluster, at: 2) })
        cluster.settle()
        cluster.pass(.seconds(40))
        #expect(Set(answerers(cluster, Self.ringing)).isSubset(of: [2]))
        #expect(cluster.engines[2].heldCalls(of: ClusterCallTests.bob, orOf: ByteString("call1")).count <= 1)
    }
}

/// The changes of a call that the store gets for the other nodes.
@Suite("State of shared calls") struct SharedCallStatesTests {
    private func call(
        id: UInt64 = 1, isTrusted: Bool = true, branches: [StoredCall.Branch] = []
    ) -> StoredCall {
        StoredCall(
            id: id,
            userCall: StoredUserCall(
                aor: ClusterCallTests.bob, callRef: CallRef(rawValue: 9), callID: ByteString("c"), fromTag: .empty,
                holdUntil: UnixTime(seconds: 1), mayPush: true),
            receivedAt: UnixTime(seconds: 0), source: SimulatedCluster.udp(SimulatedCluster.pbx),
            isTrusted: isTrusted, sender: nil, request: ByteString("INVITE"), branches: branches)
    }

    private func branch(_ stage: StoredCall.Branch.Stage) -> StoredCall.Branch {
        StoredCall.Branch(
            stage: stage, device: DeviceID(rawValue: 7), contact: nil, wasPushed: true, wasWoken: true,
            deviceKnows: false, hasMoved: false, record: nil, code: PushCode(high: 1, low: 2), end: nil)
    }

    @Test func `only calls of trusted peers are shared, without the INVITE, until their end`() throws {
        var states = SharedCallStates()
        let untrusted = states.noted(.begun(call(isTrusted: false)))
        #expect(untrusted == nil)
        let first = states.noted(.begun(call()))
        let (key, change) = try #require(first)
        #expect(key == HeldCallKey(aor: ClusterCallTests.bob, callID: ByteString("c")))
        if case .begun(let begun) = change { #expect(begun.request.isEmpty) } else { Issue.record("\(change)") }
        let next = states.noted(.branch(call: 1, number: 0, branch(.called)))
        #expect(next?.key == key)
        for change in [
            CallChange.branch(call: 2, number: 0, branch(.called)), .over(call: 1),
            .branch(call: 1, number: 0, branch(.called)),
        ] {
            let noted = states.noted(change)
            #expect(noted == nil)
        }
    }

    @Test func `a call is read from its last beginning on, and its new node pushes again`() throws {
        let old = CallChange.branch(call: 1, number: 0, branch(.ended))
        let changes = [
            .begun(call(branches: [branch(.waiting)])), old, .begun(call(branches: [branch(.waiting)])),
            CallChange.branch(call: 1, number: 0, branch(.called)),
        ]
        let read = try #require(StoredCall(changes: changes, request: ByteString("INVITE")))
        #expect(read.branches.map(\.stage) == [.called] && read.request == ByteString("INVITE"))
        let taken = read.takenOver(as: 40)
        #expect(taken.id == 40 && !taken.branches[0].isOfferedAgain)
        #expect(!taken.branches[0].wasPushed && !taken.branches[0].wasWoken && taken.branches[0].code == nil)
        #expect(StoredCall(changes: [old], request: .empty) == nil)
    }
}
