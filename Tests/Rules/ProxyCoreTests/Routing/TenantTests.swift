import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// An engine with the common domain `example.net` and two tenants, `a.example` and `b.example`; the PBXs of both
/// tenants challenge in one realm.
private struct Tenancy {
    let bench: EngineBench

    static let pbxA = Endpoint(IPAddress(v4: 0x0a00_0003), 5060)
    static let pbxB = Endpoint(IPAddress(v4: 0x0a00_0004), 5060)
    static let phoneA = Endpoint(IPAddress(v4: 0xc000_0210), 40_001)
    static let phoneB = Endpoint(IPAddress(v4: 0xc000_0211), 40_002)

    init(
        authenticates: Bool = false, log: Log = .silent, upstreams: Bool = true,
        _ change: (inout TenantSettings, inout TenantSettings) -> Void = { _, _ in },
        general: (inout ProxySettings) -> Void = { _ in }
    ) {
        var (a, b) = (TenantSettings(), TenantSettings())
        (a.realm, b.realm) = ("asterisk", "asterisk")
        a.trusted = [TrustedPeer("10.0.0.3")].compactMap { $0 }
        b.trusted = [TrustedPeer("10.0.0.4")].compactMap { $0 }
        if upstreams {
            a.upstream = NextHop("sip:10.0.0.3:5060")
            b.upstream = NextHop("sip:10.0.0.4:5060")
        }
        change(&a, &b)
        bench = EngineBench(users: Self.users, log: log) {
            $0.domains = ["example.net", "a.example", "b.example"].map { ByteString($0) }
            $0.authenticates = authenticates
            $0.tenants = Tenants(["a.example": a, "b.example": b], trusted: $0.trusted)
            $0.trusted = $0.tenants.allPeers
            general(&$0)
        }
    }

    /// The user 100 of each tenant, with different passwords in the same realm.
    private static var users: UserDirectory {
        var users = UserDirectory()
        for domain in ["a.example", "b.example"] {
            let hashed = DigestUser(
                name: ByteString("100"), realm: ByteString("asterisk"), password: ByteString("of \(domain)"),
                algorithms: DigestAlgorithm.allCases, functions: .forTests)
            users.add(DigestUser(name: hashed.name, realm: ByteString(domain), ha1: hashed.ha1))
        }
        return users
    }

    func registerText(
        _ user: String = "100", at domain: String, from source: Endpoint, token: String = "tok", callID: String = "r",
        extra: [String] = []
    ) -> [UInt8] {
        SIPText.register(
            user: user, domain: domain, from: source, callID: "\(callID)\(domain)", cseq: 1,
            branch: "\(callID)\(domain)\(user)",
            contact:
                "<sip:\(user)@\(source);pn-provider=fcm;pn-param=p;pn-prid=\(token)-\(domain.filter(\.isLetter))-\(user)>",
            extra: extra
        )
    }

    @discardableResult
    func register(
        _ user: String = "100", at domain: String, from source: Endpoint, callID: String = "r"
    ) -> [ProxyAction] {
        let actions = bench.receive(registerText(user, at: domain, from: source, callID: callID), from: source)
        return actions + bench.commitAll(in: actions)
    }

    /// Registers the user 100 of all domains.
    func registerAll() {
        register(at: "a.example", from: Self.phoneA)
        register(at: "b.example", from: Self.phoneB)
        register(at: "example.net", from: EngineBench.phone)
    }

    func invite(
        _ user: String = "100", at domain: String, from source: Endpoint, callID: String = "c", extra: [String] = []
    ) -> [ProxyAction] {
        bench.receive(
            SIPText.invite(
                to: user, domain: domain, from: "7", at: source, callID: callID, branch: callID, extra: extra),
            from: source)
    }

    func call(from user: String, to uri: String, at source: Endpoint, callID: String = "o") -> [ProxyAction] {
        let text = SIPText.invite(
            to: "x", domain: "y", from: "z", at: source, callID: callID, branch: callID)
        return bench.receive(
            text.replacing("sip:x@y", with: uri).replacing("sip:z@y", with: user), from: source)
    }
}

private func status(_ actions: [ProxyAction]) -> UInt16? { sentResponse(actions)?.status.code }

/// The flow on which the actions send an INVITE.
private func places(_ actions: [ProxyAction]) -> [Endpoint] {
    actions.compactMap { action in
        guard case .send(let bytes, let flow) = action, readRequest(bytes)?.method == .invite else { return nil }
        return flow.remote
    }
}

@Suite("Tenants: domains that are separate from all others")
struct TenantTests {
    // MARK: Accounts (T41.1)

    @Test func `users of two tenants with the same name and realm have separate passwords`() {
        let scene = Tenancy(authenticates: true)
        let text = scene.registerText(at: "a.example", from: Tenancy.phoneA)
        let challenge = sentResponse(scene.bench.receive(text, from: Tenancy.phoneA))
        let row = challenge?.frame.values(of: .wwwAuthenticate).first?.string ?? ""
        #expect(row.contains("realm=\"asterisk\""))
        let foreign = scene.bench.receiveProved(text, as: "100", password: "of b.example", from: Tenancy.phoneA)
        #expect(status(foreign) == 401)
        let right = scene.bench.receiveProved(text, as: "100", password: "of a.example", from: Tenancy.phoneA)
        #expect(status(right + scene.bench.commitAll(in: right)) == 200)
    }

    @Test func `a user of one tenant is unknown in the other`() {
        let scene = Tenancy()
        scene.register("101", at: "a.example", from: Tenancy.phoneA)
        #expect(scene.invite("101", at: "a.example", from: Tenancy.pbxA).pushes.count == 1)
        #expect(status(scene.invite("101", at: "b.example", from: Tenancy.pbxB, callID: "d")) == 404)
    }

    // MARK: Peers (T41.2)

    @Test func `a PBX calls only users of the domains for which it is trusted`() {
        let scene = Tenancy()
        scene.registerAll()
        #expect(
            story(scene.invite(at: "a.example", from: Tenancy.pbxA, callID: "1")).contains(
                "push invite tok-aexample-100"))
        let strangers = [
            (Tenancy.pbxA, "b.example"), (Tenancy.pbxB, "a.example"), (Tenancy.pbxA, "example.net"),
            (EngineBench.pbx, "a.example"),
        ]
        for (number, (peer, domain)) in strangers.enumerated() {
            let actions = scene.invite(at: domain, from: peer, callID: "s\(number)")
            #expect(status(actions) == 403, "\(peer) calls \(domain)")
            #expect(actions.pushes.isEmpty)
            // A call to a user who does not exist gets the same answer, so that nobody can find out who exists.
            #expect(status(scene.invite("nobody", at: domain, from: peer, callID: "n\(number)")) == 403)
        }
        #expect(scene.bench.engine.figures[.callOtherTenant] == 8)
        #expect(!scene.invite(at: "example.net", from: EngineBench.pbx, callID: "2").pushes.isEmpty)
    }

    @Test func `a call to the daemon's address belongs to the only tenant of the PBX`() {
        let scene = Tenancy()
        scene.registerAll()
        let atB = scene.invite(at: "10.0.0.1:5060", from: Tenancy.pbxB, callID: "1")
        #expect(atB.pushes.map(\.token.prid.string) == ["tok-bexample-100"])
        let common = scene.invite(at: "10.0.0.1:5060", from: EngineBench.pbx, callID: "2")
        #expect(common.pushes.map(\.token.prid.string) == ["tok-examplenet-100"])
    }

    @Test func `an edge registers phones only for its domain`() {
        let scene = Tenancy()
        let path = ["Path: <sip:10.0.0.3:5060;lr>", "Supported: path"]
        let own = scene.bench.receive(
            scene.registerText(at: "a.example", from: Tenancy.pbxA, extra: path), from: Tenancy.pbxA)
        #expect(status(own + scene.bench.commitAll(in: own)) == 200)
        let foreign = scene.bench.receive(
            scene.registerText(at: "b.example", from: Tenancy.pbxA, extra: path), from: Tenancy.pbxA)
        #expect(status(foreign) == 403)
    }

    @Test func `a PBX cannot cancel or end calls of another tenant`() throws {
        let scene = Tenancy()
        scene.registerAll()
        let text = SIPText.invite(
            to: "100", domain: "a.example", from: "7", at: Tenancy.pbxA, callID: "c", branch: "c")
        _ = scene.bench.receive(text, from: Tenancy.pbxA)
        let invite = try #require(readRequest(text))
        let cancel = SIPText.hopRequest("CANCEL", for: invite)
        _ = scene.bench.receive(cancel, from: Tenancy.pbxB)
        // The call still waits, so the phone gets the INVITE.
        let released = scene.bench.receive(
            scene.registerText(at: "a.example", from: Tenancy.phoneA).replacing("CSeq: 1", with: "CSeq: 2")
                .replacing("branch=z9hG4bKr", with: "branch=z9hG4bKs"), from: Tenancy.phoneA)
        let all = released + scene.bench.commitAll(in: released)
        #expect(places(all) == [Tenancy.phoneA])
        let forked = try #require(all.bytes.compactMap(readRequest).last { $0.method == .invite })
        let answered = scene.bench.receive(
            SIPText.response(200, to: forked, tag: "p", extra: ["Contact: <sip:100@\(Tenancy.phoneA)>"]),
            from: Tenancy.phoneA)
        let ok = try #require(sentResponse(answered))
        let route = ok.frame.firstValue(of: .recordRoute)?.string ?? ""
        let bye = { (source: Endpoint, branch: String) in
            SIPText.bytes([
                "BYE sip:100@\(Tenancy.phoneA) SIP/2.0", "Via: SIP/2.0/UDP \(source);rport;branch=z9hG4bK\(branch)",
                "Route: \(route)", "From: \"Caller 7\" <sip:7@a.example>;tag=fc", "To: <sip:100@a.example>;tag=p",
                "Call-ID: c", "CSeq: 2 BYE", "Max-Forwards: 70",
            ])
        }
        #expect(status(scene.bench.receive(bye(Tenancy.pbxB, "x1"), from: Tenancy.pbxB)) == 403)
        let ended = scene.bench.receive(bye(Tenancy.pbxA, "x2"), from: Tenancy.pbxA)
        #expect(story(ended).contains("bye > \(Tenancy.phoneA)"))
    }

    @Test(arguments: ["b.example", "10.0.0.1:5060"])
    func `a foreign CANCEL does not absorb the CANCEL of the caller`(host: String) throws {
        let scene = Tenancy()
        scene.registerAll()
        let text = SIPText.invite(to: "100", domain: host, from: "7", at: Tenancy.pbxB, callID: "c", branch: "c")
        _ = scene.bench.receive(text, from: Tenancy.pbxB)
        let cancel = SIPText.hopRequest("CANCEL", for: try #require(readRequest(text)))
        #expect(story(scene.bench.receive(cancel, from: Tenancy.pbxA)) == ["481 cancel > 10.0.0.3:5060"])
        #expect(story(scene.bench.receive(cancel, from: Tenancy.pbxB)).contains("487 invite > 10.0.0.4:5060"))
    }

    @Test func `a PBX cannot answer for a phone of another tenant`() throws {
        let scene = Tenancy { a, _ in a.upstream = NextHop("sip:10.0.0.3:5060") }
        scene.registerAll()
        let sent = scene.call(from: "sip:100@a.example", to: "sip:200@a.example", at: Tenancy.phoneA)
        let forked = try #require(sent.bytes.compactMap(readRequest).last { $0.method == .invite })
        let forged = scene.bench.receive(SIPText.response(200, to: forked, tag: "x"), from: Tenancy.pbxB)
        #expect(forged.texts.isEmpty)
        let own = scene.bench.receive(SIPText.response(486, to: forked, tag: "x"), from: Tenancy.pbxA)
        #expect(own.texts.contains { $0.hasPrefix("SIP/2.0 486") })
    }

    @Test func `a further Route does not lead to a PBX of another tenant`() {
        let scene = Tenancy()
        scene.registerAll()
        for (number, target) in ["10.0.0.4", "10.0.0.3"].enumerated() {
            let routes = ["Route: <sip:10.0.0.1:5060;lr>", "Route: <sip:\(target):5060;lr>"]
            _ = scene.invite(at: "a.example", from: Tenancy.pbxA, callID: "r\(number)", extra: routes)
            let released = scene.register(at: "a.example", from: Tenancy.phoneA, callID: "s\(number)")
            #expect(places(released) == (target == "10.0.0.4" ? [] : [Tenancy.pbxA]), "\(target)")
        }
    }

    // MARK: Calls of phones (T41.3)

    @Test func `calls of phones go to the PBX of their domain`() {
        let scene = Tenancy(general: { $0.upstream = NextHop("sip:10.0.0.2:5060") })
        scene.registerAll()
        let a = scene.call(from: "sip:100@a.example", to: "sip:101@a.example", at: Tenancy.phoneA, callID: "1")
        #expect(places(a) == [Tenancy.pbxA])
        let b = scene.call(from: "sip:100@b.example", to: "sip:100@a.example", at: Tenancy.phoneB, callID: "2")
        #expect(places(b) == [Tenancy.pbxB])
        let common = scene.call(
            from: "sip:100@example.net", to: "sip:101@example.net", at: EngineBench.phone, callID: "3")
        #expect(places(common) == [EngineBench.pbx])
        // The phone calls back: it dials the host that its PBX wrote into From.
        let back = scene.call(from: "sip:100@b.example", to: "sip:9@10.0.0.4", at: Tenancy.phoneB, callID: "4")
        #expect(places(back) == [Tenancy.pbxB])
    }

    @Test func `without a PBX, a phone calls only users of its own domain`() {
        let scene = Tenancy(upstreams: false)
        scene.registerAll()
        #expect(
            status(scene.call(from: "sip:100@a.example", to: "sip:100@b.example", at: Tenancy.phoneA, callID: "1"))
                == 403)
        #expect(
            status(scene.call(from: "sip:100@a.example", to: "sip:100@example.net", at: Tenancy.phoneA, callID: "2"))
                == 403)
        #expect(
            status(scene.call(from: "sip:1@example.net", to: "sip:100@b.example", at: EngineBench.phone, callID: "3"))
                == 403)
        let own = scene.call(from: "sip:7@a.example", to: "sip:100@a.example", at: Tenancy.phoneA, callID: "4")
        #expect(own.pushes.count == 1)
    }

    @Test func `the password of one tenant does not call as a user of another`() {
        let scene = Tenancy(authenticates: true, upstreams: false)
        let text = SIPText.invite(
            to: "100", domain: "b.example", from: "100", at: Tenancy.phoneA, callID: "c", branch: "c")
        let foreign = scene.bench.receiveProved(text, as: "100", password: "of a.example", from: Tenancy.phoneA)
        #expect(status(foreign) == 407)
    }

    @Test func `an anonymous call goes to the PBX of the domain whose password came with the call`() {
        let scene = Tenancy(authenticates: true, general: { $0.upstream = NextHop("sip:10.0.0.2:5060") })
        let text = SIPText.invite(
            to: "101", domain: "a.example", from: "100", at: Tenancy.phoneA, callID: "c", branch: "c",
            extra: ["P-Preferred-Identity: <sip:100@a.example>"]
        ).replacing("<sip:100@a.example>;tag", with: "<sip:anonymous@anonymous.invalid>;tag")
        let proved = scene.bench.receiveProved(text, as: "100", password: "of a.example", from: Tenancy.phoneA)
        #expect(places(proved) == [Tenancy.pbxA])
    }

    @Test func `a tenant with trusted peers of its own does not use the general upstream`() {
        let scene = Tenancy(upstreams: false, general: { $0.upstream = NextHop("sip:10.0.0.2:5060") })
        scene.registerAll()
        let own = scene.call(from: "sip:7@a.example", to: "sip:100@a.example", at: Tenancy.phoneB, callID: "1")
        #expect(own.pushes.count == 1 && places(own).isEmpty)
        let shared = Tenancy(
            upstreams: false, { a, _ in a.trusted = nil }, general: { $0.upstream = NextHop("sip:10.0.0.2:5060") })
        shared.registerAll()
        let general = shared.call(from: "sip:7@a.example", to: "sip:9@a.example", at: Tenancy.phoneB, callID: "1")
        #expect(places(general) == [EngineBench.pbx])
    }

    @Test func `a tel URI and a temporary GRUU do not lead to users of other tenants`() throws {
        let scene = Tenancy(general: { $0.domains = ["a.example", "b.example", "example.net"].map { ByteString($0) } })
        scene.registerAll()
        let text = SIPText.invite(to: "x", domain: "y", from: "7", at: EngineBench.pbx, callID: "t", branch: "t")
            .replacing("sip:x@y", with: "tel:100")
        #expect(status(scene.bench.receive(text, from: EngineBench.pbx)) == 403)
        let answers = scene.bench.receive(
            scene.registerText("100", at: "b.example", from: Tenancy.phoneB, callID: "g", extra: ["Supported: gruu"])
                .replacing("<sip:100@", with: "<sip:100@")
                .replacing(">\r\nExpires", with: ">;+sip.instance=\"<urn:uuid:1>\"\r\nExpires"), from: Tenancy.phoneB)
        let ok = (answers + scene.bench.commitAll(in: answers)).texts.last ?? ""
        let gruu = try #require(ok.split(separator: "temp-gruu=\"").last?.split(separator: "\"").first)
        let user = String(gruu.dropFirst(4).prefix { $0 != "@" })
        let foreign = SIPText.invite(
            to: user, domain: "a.example", from: "7", at: Tenancy.pbxA, callID: "f", branch: "f"
        ).replacing("@a.example SIP/2.0", with: "@a.example;gr SIP/2.0")
        #expect(status(scene.bench.receive(foreign, from: Tenancy.pbxA)) == 404)
        let own = SIPText.invite(
            to: user, domain: "b.example", from: "7", at: Tenancy.pbxB, callID: "o", branch: "o"
        ).replacing("@b.example SIP/2.0", with: "@b.example;gr SIP/2.0")
        #expect(scene.bench.receive(own, from: Tenancy.pbxB).pushes.count == 1)
    }

    // MARK: Push apps (T41.4)

    @Test func `phones register only tokens of their tenant's apps`() {
        let scene = Tenancy { a, _ in a.pushApps = ["fcm"] }
        #expect(status(scene.register(at: "a.example", from: Tenancy.phoneA)) == 200)
        for domain in ["b.example", "example.net"] {
            let refused = scene.register(at: domain, from: Tenancy.phoneB)
            #expect(status(refused) == 555)
            #expect(refused.texts.contains { $0.contains("belongs to another domain") })
        }
        // After a change of the settings, the phones of the second tenant can use the push app too.
        scene.bench.change { settings in
            var groups = Dictionary(uniqueKeysWithValues: settings.tenants.all.map { ($0.domain.string, $0.settings) })
            groups["b.example"]?.pushApps = ["fcm"]
            settings.tenants = Tenants(groups, trusted: settings.tenants.commonPeers)
        }
        #expect(status(scene.register(at: "b.example", from: Tenancy.phoneB, callID: "s")) == 200)
    }

    // MARK: Limits (T41.5)

    @Test func `calls of a tenant beyond its limit get 503, and others are served`() {
        let scene = Tenancy { a, _ in a.calls = 2 }
        scene.registerAll()
        for number in 1...2 {
            #expect(status(scene.invite(at: "a.example", from: Tenancy.pbxA, callID: "\(number)")) == 100)
        }
        #expect(status(scene.invite(at: "a.example", from: Tenancy.pbxA, callID: "3")) == 503)
        #expect(
            status(scene.call(from: "sip:100@a.example", to: "sip:9@a.example", at: Tenancy.phoneB, callID: "4")) == 503
        )
        #expect(scene.bench.engine.figures[.callTenantLimit] == 2)
        #expect(status(scene.invite(at: "b.example", from: Tenancy.pbxB, callID: "5")) == 100)
        // When a call ends, the tenant can have another call.
        if let invite = readRequest(
            SIPText.invite(to: "100", domain: "a.example", from: "7", at: Tenancy.pbxA, callID: "1", branch: "1"))
        {
            let ended = scene.bench.receive(SIPText.hopRequest("CANCEL", for: invite), from: Tenancy.pbxA)
            #expect(story(ended).contains("487 invite > 10.0.0.3:5060"))
        }
        #expect(status(scene.invite(at: "a.example", from: Tenancy.pbxA, callID: "6")) == 100)
    }

    @Test func `contacts of a tenant beyond its limit get 403, also if many come before the disk is ready`() {
        let scene = Tenancy { a, _ in a.contacts = 2 }
        var commits: [ProxyAction] = []
        var refused = 0
        for number in 1...4 {
            let actions = scene.bench.receive(
                scene.registerText("u\(number)", at: "a.example", from: Tenancy.phoneA), from: Tenancy.phoneA)
            commits += actions
            if status(actions) == 403 { refused += 1 }
        }
        #expect(refused == 2)
        _ = scene.bench.commitAll(in: commits)
        #expect(status(scene.register("u5", at: "a.example", from: Tenancy.phoneA)) == 403)
        #expect(status(scene.register("u5", at: "b.example", from: Tenancy.phoneB)) == 200)
        // A refresh of a stored contact does not count as a new contact, and a sign-out makes room for another contact.
        let again = scene.registerText("u1", at: "a.example", from: Tenancy.phoneA)
            .replacing("CSeq: 1", with: "CSeq: 2").replacing("branch=z9hG4bKr", with: "branch=z9hG4bKs")
        #expect(status(scene.bench.receive(again, from: Tenancy.phoneA)) == 200)
        let out = scene.registerText("u1", at: "a.example", from: Tenancy.phoneA, extra: [])
            .replacing("CSeq: 1", with: "CSeq: 3").replacing("branch=z9hG4bKr", with: "branch=z9hG4bKt")
            .replacing("Expires: 3600", with: "Expires: 0")
        let left = scene.bench.receive(out, from: Tenancy.phoneA)
        _ = scene.bench.commitAll(in: left)
        #expect(status(scene.register("u6", at: "a.example", from: Tenancy.phoneA)) == 200)
    }

    @Test func `calls beyond a tenant's limit of pushes wait without a push`() {
        let sink = LineSink()
        let scene = Tenancy(log: Log(level: .warning, sink: sink) { UnixTime(milliseconds: 0) }) { a, _ in a.pushes = 2
        }
        scene.registerAll()
        var pushes = 0
        for number in 1...4 {
            pushes += scene.invite(at: "a.example", from: Tenancy.pbxA, callID: "\(number)").pushes.count
        }
        #expect(pushes == 2)
        #expect(sink.take().contains { $0.contains("a domain has reached its limit of pushes") })
        #expect(scene.invite(at: "b.example", from: Tenancy.pbxB, callID: "b").pushes.count == 1)
    }

    @Test func `the limit of pushes counts each device of a call`() {
        let scene = Tenancy { a, _ in a.pushes = 3 }
        for number in 1...2 {
            let text = scene.registerText(
                at: "a.example", from: Tenancy.phoneA, token: "t\(number)", callID: "d\(number)"
            )
            .replacing("<sip:100@192", with: "<sip:100\(number)@192")
            _ = scene.bench.commitAll(in: scene.bench.receive(text, from: Tenancy.phoneA))
        }
        #expect(scene.invite(at: "a.example", from: Tenancy.pbxA, callID: "1").pushes.count == 2)
        // The call takes the last push of the tenant's limit, and the daemon also sends the push to the user's second
        // device.
        #expect(scene.invite(at: "a.example", from: Tenancy.pbxA, callID: "2").pushes.count == 2)
        #expect(scene.invite(at: "a.example", from: Tenancy.pbxA, callID: "3").pushes.isEmpty)
    }

    @Test func `the calls of a tenant stay its own when another tenant is added`() {
        let scene = Tenancy { a, b in
            a.calls = 1
            b.calls = 1
        }
        scene.registerAll()
        #expect(status(scene.invite(at: "b.example", from: Tenancy.pbxB, callID: "1")) == 100)
        scene.bench.change { settings in
            var groups = Dictionary(uniqueKeysWithValues: settings.tenants.all.map { ($0.domain.string, $0.settings) })
            groups["a.example"] = nil
            settings.tenants = Tenants(groups, trusted: settings.tenants.commonPeers)
        }
        #expect(status(scene.invite(at: "b.example", from: Tenancy.pbxB, callID: "2")) == 503)
    }

    // MARK: Settings that change

    @Test func `a tenant that is added at SIGHUP is separate at once`() {
        let scene = Tenancy()
        scene.registerAll()
        #expect(!scene.invite(at: "example.net", from: EngineBench.pbx, callID: "1").pushes.isEmpty)
        scene.bench.change { settings in
            var groups = Dictionary(uniqueKeysWithValues: settings.tenants.all.map { ($0.domain.string, $0.settings) })
            var own = TenantSettings()
            own.trusted = []
            groups["example.net"] = own
            settings.tenants = Tenants(groups, trusted: settings.tenants.commonPeers)
            settings.trusted = settings.tenants.allPeers
        }
        #expect(status(scene.invite(at: "example.net", from: EngineBench.pbx, callID: "2")) == 403)
        #expect(!scene.invite(at: "a.example", from: Tenancy.pbxA, callID: "3").pushes.isEmpty)
    }
}
