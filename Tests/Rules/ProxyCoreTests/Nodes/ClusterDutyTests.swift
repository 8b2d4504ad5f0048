import Addressing
import Bytes
import LocationService
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// The duties that one node does for all nodes of a cluster: contacts whose node has ended. The phone's node is node 1.
@Suite struct ClusterDutyTests {
    private typealias Calls = ClusterCallTests

    private func cluster(lead: Int = 0, nodes: Int = 3) -> SimulatedCluster {
        SimulatedCluster(nodes: nodes) { $0.registrar.refreshPushLead = .seconds(lead) }
    }

    private func registerOrdinary(_ cluster: SimulatedCluster, at node: Int, cseq: Int = 1, expires: Int = 120) {
        cluster.receive(
            SIPText.register(
                user: "bob", from: Calls.phone, callID: "ordinary", cseq: cseq, branch: "ordinary\(cseq)",
                contact: "<sip:bob@\(Calls.phone)>", expires: expires),
            on: SimulatedCluster.udp(Calls.phone), at: node)
        cluster.settle()
    }

    private func registerSleeper(_ cluster: SimulatedCluster, at node: Int, cseq: Int = 1) {
        Calls.register(cluster, at: node, cseq: cseq, expires: 600)
        cluster.settle()
    }

    /// Lets all living nodes learn of bob's contacts.
    private func look(_ cluster: SimulatedCluster, at nodes: [Int]) {
        for node in nodes {
            cluster.engines[node].lookUp(Calls.bob, for: LookTicket(1))
            cluster.take(from: node)
        }
        cluster.settle()
    }

    /// The nodes that have sent refresh pushes, in order.
    private func refreshes(_ cluster: SimulatedCluster) -> [Int] {
        cluster.pushes.filter { if case .notification = $0.push.push.message { true } else { false } }.map(\.node)
    }

    // MARK: Contacts without push

    @Test func `only the node with the duties removes an expired contact whose node has ended`() {
        let cluster = cluster()
        registerOrdinary(cluster, at: 1)
        cluster.kill(1, takenOverBy: 0)
        cluster.pass(.seconds(600))
        #expect(cluster.disk.bindings.count == 1)
        cluster.giveDuties(to: 2)
        cluster.pass(.seconds(15))
        #expect(cluster.disk.bindings.isEmpty)
        #expect(cluster.engines[2].figures[.contactTakenOver] == 1)
        #expect(cluster.engines[2].figures[.bindingRemoved] == 1)
    }

    @Test func `a contact stays until it expires, also at a node with the duties from the start`() {
        let cluster = cluster()
        cluster.giveDuties(to: 0)
        cluster.pass(.seconds(60))
        registerOrdinary(cluster, at: 1)
        cluster.kill(1, takenOverBy: 0)
        cluster.pass(.seconds(110))
        #expect(cluster.disk.bindings.count == 1)
        cluster.pass(.seconds(40))
        #expect(cluster.disk.bindings.isEmpty)
    }

    @Test func `a contact of an earlier run of a restarted node is removed too`() {
        let cluster = cluster()
        cluster.giveDuties(to: 0)
        registerOrdinary(cluster, at: 1)
        cluster.kill(1, takenOverBy: 2)
        let old = SimulatedCluster.peer(1)
        cluster.engines[0].nodesChanged(
            [PeerNode(name: old.name, place: old.place, run: 9), SimulatedCluster.peer(2)], now: cluster.now)
        cluster.take(from: 0)
        cluster.pass(.seconds(150))
        #expect(cluster.disk.bindings.isEmpty)
    }

    @Test func `a contact of a living node is left to this node`() {
        let cluster = cluster()
        registerOrdinary(cluster, at: 1)
        cluster.giveDuties(to: 0)
        cluster.pass(.seconds(110))
        #expect(cluster.engines[0].figures[.contactTakenOver] == 0)
        cluster.pass(.seconds(20))
        #expect(cluster.disk.bindings.isEmpty)
        #expect(cluster.engines[0].figures[.bindingRemoved] == 0)
    }

    @Test func `a phone that has moved to another node keeps its contact when the copy of its first node expires`() {
        let cluster = cluster()
        cluster.giveDuties(to: 0)
        registerOrdinary(cluster, at: 1)
        cluster.pass(.seconds(60))
        registerOrdinary(cluster, at: 2, cseq: 2, expires: 600)
        cluster.pass(.seconds(200))
        #expect(cluster.disk.bindings.count == 1)
        cluster.kill(2, takenOverBy: 0)
        cluster.pass(.seconds(300))
        #expect(cluster.disk.bindings.count == 1)
        cluster.pass(.seconds(100))
        #expect(cluster.disk.bindings.isEmpty)
    }

    @Test func `a phone that registers again while its contact is being removed keeps the new contact`() {
        let cluster = cluster()
        registerOrdinary(cluster, at: 1)
        look(cluster, at: [2])
        cluster.kill(1, takenOverBy: 0)
        cluster.pass(.seconds(119))
        // Node 2 accepts the phone's refresh, and node 0 has the row of before.
        let row = cluster.disk.bindings.values.first
        registerOrdinary(cluster, at: 2, cseq: 2, expires: 600)
        #expect(cluster.disk.bindings.values.first?.id == row?.id)
        cluster.engines[0].restore(StoredUser(aor: Calls.bob, bindings: row.map { [$0] } ?? []), now: cluster.now)
        cluster.giveDuties(to: 0)
        cluster.pass(.seconds(60))
        #expect(cluster.disk.bindings.count == 1)
    }

    @Test func `while the database is away nothing is removed`() {
        let cluster = cluster()
        registerOrdinary(cluster, at: 1)
        cluster.kill(1, takenOverBy: 0)
        cluster.giveDuties(to: 0)
        cluster.pass(.seconds(10))
        cluster.isStoreAway = true
        cluster.pass(.seconds(200))
        #expect(cluster.disk.bindings.count == 1)
        cluster.isStoreAway = false
        cluster.pass(.seconds(15))
        #expect(cluster.disk.bindings.isEmpty)
    }

    @Test func `the search ends when no contact of the ended node is left`() {
        let cluster = cluster()
        registerOrdinary(cluster, at: 1)
        cluster.kill(1, takenOverBy: 0)
        cluster.giveDuties(to: 0)
        cluster.pass(.seconds(200))
        let pages = cluster.pages
        cluster.pass(.seconds(3600))
        #expect(pages > 0 && cluster.pages == pages)
    }

    @Test func `the search reads all contacts, page by page`() {
        let cluster = cluster()
        for number in 0..<2500 {
            let phone = Endpoint(IPAddress(v4: 0xc000_0300 + UInt32(number)), 5060)
            cluster.receive(
                SIPText.register(
                    user: "u\(number)", from: phone, callID: "u\(number)", cseq: 1, branch: "u\(number)",
                    contact: "<sip:u\(number)@\(phone)>", expires: 120),
                on: SimulatedCluster.udp(phone), at: 1)
        }
        cluster.settle()
        #expect(cluster.disk.bindings.count == 2500)
        cluster.kill(1, takenOverBy: 0)
        cluster.pass(.seconds(130))
        cluster.giveDuties(to: 0)
        // A page with 1000 users makes the search pause for a second.
        cluster.pass(.milliseconds(500))
        #expect(cluster.disk.bindings.count == 1500)
        cluster.pass(.seconds(30))
        #expect(cluster.disk.bindings.isEmpty)
        #expect(cluster.engines[0].figures[.contactTakenOver] == 2500)
    }

    // MARK: Refresh pushes

    @Test func `only the node with the duties sends refresh pushes to a phone whose node has ended`() {
        let cluster = cluster(lead: 180)
        registerSleeper(cluster, at: 1)
        look(cluster, at: [0, 2])
        cluster.kill(1, takenOverBy: 0)
        cluster.giveDuties(to: 2)
        cluster.pass(.seconds(400))
        #expect(refreshes(cluster) == [])
        cluster.pass(.seconds(200))
        let sent = refreshes(cluster)
        #expect((2...3).contains(sent.count) && Set(sent) == [2], "\(sent)")
    }

    @Test func `a node that has never seen the phone sends the push, too`() {
        let cluster = cluster(lead: 180, nodes: 2)
        registerSleeper(cluster, at: 1)
        cluster.kill(1, takenOverBy: 0)
        cluster.pass(.seconds(300))
        #expect(refreshes(cluster) == [])
        cluster.giveDuties(to: 0)
        cluster.pass(.seconds(300))
        #expect((2...3).contains(refreshes(cluster).count))
    }

    @Test func `a move of the duties repeats no push, and the next push comes from the new node`() throws {
        let cluster = cluster(lead: 180)
        registerSleeper(cluster, at: 1)
        cluster.kill(1, takenOverBy: 0)
        cluster.giveDuties(to: 0)
        while refreshes(cluster).isEmpty, cluster.elapsed < 600 { cluster.pass(.seconds(1)) }
        let rest = 600 - cluster.elapsed
        cluster.kill(0, takenOverBy: 2)
        cluster.giveDuties(to: 2)
        cluster.pass(.seconds(rest / 3))
        #expect(refreshes(cluster) == [0])
        cluster.pass(.seconds(rest))
        let sent = refreshes(cluster)
        #expect(Set(sent.dropFirst()) == [2] && (2...3).contains(sent.count), "\(sent)")
    }

    @Test func `a node that loses the duties sends no further pushes`() {
        let cluster = cluster(lead: 180)
        registerSleeper(cluster, at: 1)
        cluster.kill(1, takenOverBy: 0)
        cluster.giveDuties(to: 0)
        while refreshes(cluster).isEmpty, cluster.elapsed < 600 { cluster.pass(.seconds(1)) }
        cluster.giveDuties(to: nil)
        cluster.pass(.seconds(300))
        #expect(refreshes(cluster) == [0])
    }

    @Test func `a phone that has registered at another node gets no push from a node with an old copy`() {
        let cluster = cluster(lead: 180)
        registerSleeper(cluster, at: 1)
        look(cluster, at: [0])
        cluster.pass(.seconds(300))
        registerSleeper(cluster, at: 2, cseq: 2)
        cluster.kill(1, takenOverBy: 0)
        cluster.giveDuties(to: 0)
        cluster.pass(.seconds(400))
        #expect(refreshes(cluster) == [])
        cluster.pass(.seconds(200))
        let sent = refreshes(cluster)
        #expect((2...3).contains(sent.count) && Set(sent) == [2], "\(sent)")
    }

    @Test func `the first node of a phone that has moved sends no push`() {
        let cluster = cluster(lead: 180)
        registerSleeper(cluster, at: 1)
        cluster.pass(.seconds(300))
        registerSleeper(cluster, at: 2, cseq: 2)
        cluster.pass(.seconds(290))
        #expect(refreshes(cluster) == [])
    }

    @Test func `while the database is away no refresh push is sent, because no phone could register`() {
        let cluster = cluster(lead: 180, nodes: 2)
        registerSleeper(cluster, at: 1)
        cluster.pass(.seconds(410))
        cluster.isStoreAway = true
        cluster.pass(.seconds(100))
        #expect(refreshes(cluster) == [])
        cluster.isStoreAway = false
        cluster.pass(.seconds(80))
        #expect(refreshes(cluster).first == 1)
    }
}
