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
import UpstreamRegistration

/// Users of all nodes of a cluster at one PBX. Only the node with the duties registers them.
@Suite struct ClusterUpstreamTests {
    private typealias Calls = ClusterCallTests

    /// Three nodes with one name, and the PBX at which they register users.
    private final class Scene {
        let cluster: SimulatedCluster
        var pbx = TestPBX()
        /// The nodes that have sent REGISTERs with a contact, in order. Other REGISTERs only ask for contacts.
        var senders: [Int] = []

        init(named name: String? = "edge.example.net:5060") {
            cluster = SimulatedCluster(nodes: 3, named: name.map { ByteString($0) }) { settings in
                var group = UpstreamRegistrationSettings()
                group.upstream = NextHop("sip:10.0.0.2:5060")
                settings.upstreamRegistrations = [ByteString("example.net"): group]
            }
            cluster.users = TestDigest.users("bob", "eve")
            pbx.users = cluster.users
        }

        /// Lets time pass, and answers the requests of the nodes as the PBX.
        func pass(_ duration: Duration) {
            let end = cluster.now.instant + duration
            repeat {
                react()
                cluster.pass(min(.milliseconds(100), end - cluster.now.instant))
            } while cluster.now.instant < end
            react()
        }

        func react() {
            cluster.settle()
            while let place = cluster.sent.firstIndex(where: { message in
                message.flow.remote == SimulatedCluster.pbx
                    && (message.request?.method == .register || message.request?.method == .options)
            }) {
                let message = cluster.sent.remove(at: place)
                guard let request = message.request else { continue }
                if request.method == .register, !request.contacts.isEmpty { senders.append(message.node) }
                if let answer = pbx.answer(request) { cluster.receive(answer, on: message.flow, at: message.node) }
                cluster.settle()
            }
        }

        func register(_ user: String = "bob", at node: Int, cseq: Int = 1, expires: Int = 3600) {
            cluster.receive(
                SIPText.register(
                    user: user, from: Calls.phone, callID: "r\(user)", cseq: cseq, branch: "\(user)x\(cseq)",
                    contact: "<sip:\(user)@\(Calls.phone);pn-provider=fcm;pn-param=p;pn-prid=tok-\(user)>",
                    expires: expires), on: SimulatedCluster.udp(Calls.phone), at: node)
            react()
        }

        func status(at node: Int, of user: String = "bob") -> UpstreamStatus? {
            let users = cluster.engines[node].upstreamUsers
            return users.user(AddressOfRecord(user: ByteString(user), host: ByteString("example.net")))
                .flatMap { users.agent.status(of: $0) }
        }
    }

    @Test func `only the node with the duties registers the users of all nodes`() throws {
        let scene = Scene()
        scene.register("bob", at: 1)
        scene.register("eve", at: 2)
        scene.pass(.seconds(60))
        #expect(scene.senders.isEmpty && scene.status(at: 1) == nil)
        scene.cluster.giveDuties(to: 0)
        scene.pass(.seconds(5))
        #expect(Set(scene.senders) == [0] && scene.pbx.contacts.count == 2)
        let contact = try #require(scene.pbx.contacts["bob"])
        #expect(contact.hasSuffix("@edge.example.net:5060"))
        #expect(scene.status(at: 0)?.state == .registered && scene.status(at: 1) == nil)
        // A pass finds nothing new, so nothing is sent until the refreshes.
        let count = scene.senders.count
        scene.pass(.seconds(600))
        #expect(scene.senders.count == count)
        scene.pass(.seconds(3600))
        #expect(scene.senders.count >= count + 2 && Set(scene.senders) == [0])
    }

    @Test func `a phone that is new at another node is registered before the next search, and a sign-out ends it`() {
        let scene = Scene()
        scene.cluster.giveDuties(to: 0)
        scene.pass(.seconds(2))
        scene.register(at: 2)
        scene.pass(.milliseconds(500))
        #expect(scene.pbx.contacts["bob"] != nil && Set(scene.senders) == [0])
        // Refreshes at the other node tell nobody.
        let exchanged = scene.cluster.exchanged
        scene.register(at: 2, cseq: 2)
        #expect(scene.cluster.exchanged == exchanged)
        scene.register(at: 2, cseq: 3, expires: 0)
        scene.pass(.milliseconds(500))
        #expect(scene.pbx.contacts["bob"] == nil)
    }

    @Test func `each node accepts a call for a token, and nobody else may make one`() throws {
        let scene = Scene()
        scene.cluster.giveDuties(to: 0)
        scene.register(at: 2)
        scene.pass(.seconds(2))
        let token = scene.pbx.token()
        for (node, text) in [(1, token), (0, token.uppercased())] {
            scene.cluster.receive(
                SIPText.invite(
                    to: text, domain: "edge.example.net:5060", from: "103", at: SimulatedCluster.pbx,
                    callID: "call\(node)", branch: "call\(node)"), on: SimulatedCluster.udp(SimulatedCluster.pbx),
                at: node)
            scene.react()
            #expect(scene.cluster.pushes.last?.node == node)
        }
        #expect(scene.cluster.pushes.allSatisfy { !"\($0.push)".lowercased().contains(token) })
        let stranger = Endpoint(IPAddress(v4: 0xc633_6407), 5060)
        scene.cluster.receive(
            SIPText.invite(
                to: token, domain: "edge.example.net:5060", from: "x", at: stranger, callID: "s", branch: "s"),
            on: SimulatedCluster.udp(stranger), at: 1)
        scene.react()
        // The token wakes nobody for a stranger: the INVITE goes to the PBX, as for any user without a phone here.
        #expect(scene.cluster.pushes.count == 2)
        #expect(scene.cluster.sent.last { $0.request?.method == .invite }?.flow.remote == SimulatedCluster.pbx)
    }

    @Test func `the next node with the duties registers the same contact with the same Call-ID and higher numbers`()
        throws
    {
        let scene = Scene()
        scene.cluster.giveDuties(to: 0)
        scene.register(at: 2)
        scene.pass(.seconds(2))
        let first = try #require(scene.pbx.received.last)
        let contact = scene.pbx.contacts["bob"]
        scene.cluster.kill(0, takenOverBy: 1)
        scene.cluster.giveDuties(to: 1)
        scene.pass(.seconds(5))
        let last = try #require(scene.pbx.received.last)
        #expect(scene.senders.last == 1 && scene.pbx.contacts["bob"] == contact)
        #expect(last.callID == first.callID && last.cseq.number > first.cseq.number)
    }

    @Test func `a node that loses the duties for seconds registers nobody again`() {
        let scene = Scene()
        scene.cluster.giveDuties(to: 0)
        scene.register(at: 2)
        scene.pass(.seconds(2))
        let count = scene.senders.count
        scene.cluster.giveDuties(to: nil)
        #expect(scene.status(at: 0) == nil)
        scene.pass(.seconds(20))
        scene.cluster.giveDuties(to: 0)
        scene.pass(.seconds(20))
        #expect(scene.senders.count == count && scene.status(at: 0)?.state == .registered)
        // After a longer time, another node may have registered and ended users, so the node begins again.
        scene.cluster.giveDuties(to: nil)
        scene.pass(.seconds(100))
        scene.cluster.giveDuties(to: 0)
        scene.pass(.seconds(20))
        #expect(scene.senders.count > count && scene.status(at: 0)?.state == .registered)
    }

    @Test func `a node without the duties sends no REGISTER, even if one was under way`() {
        let scene = Scene()
        scene.cluster.giveDuties(to: 0)
        scene.register(at: 2)
        scene.cluster.pass(.milliseconds(1))
        scene.cluster.giveDuties(to: nil)
        scene.pass(.seconds(40))
        #expect(scene.pbx.contacts["bob"] == nil)
        scene.cluster.giveDuties(to: 0)
        scene.pass(.seconds(2))
        #expect(scene.pbx.contacts["bob"] != nil)
    }

    @Test func `the search ends the registration of a user whose contact has gone without a word`() throws {
        let scene = Scene()
        scene.cluster.giveDuties(to: 0)
        scene.register(at: 2)
        scene.pass(.seconds(2))
        scene.cluster.cut.insert([0, 2])
        scene.register(at: 2, cseq: 2, expires: 0)
        scene.pass(.milliseconds(500))
        #expect(scene.pbx.contacts["bob"] != nil)
        scene.pass(.seconds(25))
        #expect(scene.pbx.contacts["bob"] == nil)
    }

    @Test func `a password that changes at another node is read before the next REGISTER, also after a refusal`() {
        let scene = Scene()
        scene.cluster.giveDuties(to: 0)
        scene.register(at: 2)
        scene.pass(.seconds(2))
        var changed = UserDirectory()
        changed.add(
            DigestUser(
                name: ByteString("bob"), realm: ByteString("example.net"), password: ByteString("other"),
                algorithms: DigestAlgorithm.allCases, functions: .forTests))
        scene.pbx.users = changed
        scene.pass(.seconds(3600))
        #expect(scene.status(at: 0)?.state == .refused)
        let count = scene.senders.count
        scene.pass(.seconds(600))
        #expect(scene.senders.count == count)
        scene.cluster.users = changed
        // No NOTIFY arrives, so the search finds the new password.
        scene.pass(.seconds(30))
        #expect(scene.status(at: 0)?.state == .registered)
    }

    @Test func `an operator's change of a password at another node is known at once`() throws {
        let scene = Scene()
        scene.cluster.giveDuties(to: 0)
        scene.cluster.users = UserDirectory()
        scene.register(at: 2)
        scene.pass(.seconds(2))
        #expect(scene.status(at: 0)?.state == .refused)
        let count = scene.senders.count
        scene.pass(.seconds(120))
        #expect(scene.senders.count == count)
        scene.cluster.users = TestDigest.users("bob", "eve")
        let user = try #require(scene.cluster.users.user(named: ByteString("bob"), realm: ByteString("example.net")))
        scene.cluster.engines[2].userAdded(user, now: scene.cluster.now)
        scene.cluster.take(from: 2)
        scene.pass(.milliseconds(500))
        #expect(scene.status(at: 0)?.state == .registered)
        // The password of a removed user still ends the registration.
        scene.cluster.users = TestDigest.users("eve")
        scene.cluster.engines[2].userRemoved(name: user.name, realm: user.realm, now: scene.cluster.now)
        scene.cluster.take(from: 2)
        scene.pass(.milliseconds(500))
        #expect(scene.pbx.contacts["bob"] == nil)
    }

    @Test func `a removed user's contacts do not bring the user back, even if the PBX is away`() throws {
        let scene = Scene()
        scene.cluster.giveDuties(to: 0)
        scene.register(at: 2)
        scene.pass(.seconds(2))
        scene.pbx.isAway = true
        scene.cluster.users = TestDigest.users("eve")
        let user = try #require(
            TestDigest.users("bob").user(named: ByteString("bob"), realm: ByteString("example.net")))
        scene.cluster.engines[2].userRemoved(name: user.name, realm: user.realm, now: scene.cluster.now)
        scene.cluster.take(from: 2)
        scene.pass(.seconds(60))
        #expect(scene.pbx.contacts["bob"] != nil && scene.status(at: 0)?.state == .ending)
        scene.pbx.isAway = false
        scene.pass(.seconds(400))
        #expect(scene.pbx.contacts["bob"] == nil && scene.status(at: 0) == nil)
        #expect(scene.cluster.disk.bindings.count == 1)
    }

    @Test func `a user is registered with the algorithms of the stored account`() {
        let scene = Scene()
        var users = UserDirectory()
        users.add(
            DigestUser(
                name: ByteString("bob"), realm: ByteString("example.net"), password: ByteString("bob"),
                algorithms: [.md5], functions: .forTests))
        (scene.cluster.users, scene.pbx.users, scene.pbx.offersSHA256) = (users, users, true)
        scene.register(at: 2)
        scene.cluster.giveDuties(to: 0)
        scene.pass(.seconds(3))
        #expect(scene.status(at: 0)?.state == .registered)
    }

    @Test func `a node begins only after it knows the numbers of earlier REGISTERs`() {
        let scene = Scene()
        scene.register(at: 2)
        scene.cluster.isStoreAway = true
        scene.cluster.giveDuties(to: 0)
        scene.pass(.seconds(10))
        #expect(scene.senders.isEmpty)
        scene.cluster.isStoreAway = false
        scene.pass(.seconds(3))
        #expect(scene.pbx.contacts["bob"] != nil)
    }
}
