import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

@Suite("Targets of requests")
struct RoutingTests {
    private static let edge = Endpoint(IPAddress(v4: 0x0a00_0003), 5060)
    private static let inner = Endpoint(IPAddress(v4: 0x0a00_0004), 5062)

    private func tcp(_ remote: Endpoint = EngineBench.phone, connection: UInt64 = 7) -> Flow {
        Flow(transport: .tcp, listener: 1, connection: connection, remote: remote)
    }

    private func registerText(contact: String, path: String? = nil, more: [String] = [], cseq: Int = 1) -> [UInt8] {
        SIPText.register(
            user: "bob", from: EngineBench.phone, transport: .tcp, callID: "r1", cseq: cseq, branch: "r\(cseq)",
            contact: contact, extra: (path.map { ["Path: \($0)"] } ?? []) + more)
    }

    /// The actions of a call to a phone whose TCP connection breaks before the INVITE is sent.
    private func storyAfterBreak(of contact: String, trusted: [String] = ["10.0.0.2"]) -> [String] {
        let bench = EngineBench { $0.trusted = trusted.compactMap { TrustedPeer($0) } }
        let first = bench.receive(registerText(contact: contact), on: tcp())
        _ = bench.commitAll(in: first)
        var told = story(bench.invite())
        bench.engine.sendFailed(on: tcp(), now: bench.now)
        told += story(bench.take())
        return told
    }

    // MARK: A Contact is a name

    @Test(arguments: [
        // The daemon connects to the address from which the phone registered, at the port in its Contact.
        ("<sip:bob@192.0.2.5:5099;transport=tcp>", "192.0.2.5:5099"),
        ("<sip:bob@192.0.2.5;transport=tcp>", "192.0.2.5:5060"),
        ("<sip:bob@10.0.0.2:5060;transport=tcp>", "192.0.2.5:5060"),
        ("<sip:bob@127.0.0.1:22;transport=tcp>", "192.0.2.5:22"),
        ("<sip:bob@10.0.0.1:5060;transport=tcp>", "192.0.2.5:5060"),
        ("<sip:bob@203.0.113.9:5080>", "192.0.2.5:5080"),
        ("<sip:bob@somewhere.example.org:5081;maddr=10.0.0.2>", "192.0.2.5:5081"),
    ])
    func `a phone whose connection is gone is called at its port where it registered from`(
        contact: String, place: String
    ) {
        #expect(storyAfterBreak(of: contact) == ["100 invite > pbx", "invite > phone", "invite > \(place)"])
    }

    @Test func `a phone is not called at a trusted address that it shares`() {
        let told = storyAfterBreak(of: "<sip:bob@x:5060;transport=tcp>", trusted: ["10.0.0.2", "192.0.2.5:5060"])
        // After the failed connection, the call waits, because the phone may register again.
        #expect(told == ["100 invite > pbx", "invite > phone"])
    }

    @Test func `a phone at our own address is not called at our own port`() {
        let bench = EngineBench()
        let flow = tcp(Endpoint(IPAddress(v4: 0x0a00_0001), 40_000))
        _ = bench.commitAll(in: bench.receive(registerText(contact: "<sip:bob@10.0.0.1:5060;transport=tcp>"), on: flow))
        bench.invite()
        bench.engine.sendFailed(on: flow, now: bench.now)
        #expect(story(bench.take()).isEmpty)
        #expect(story(bench.pass(.seconds(31))).contains("480 invite > pbx"))
    }

    @Test func `no request goes to the daemon itself, even if a phone seems to have registered from there`() {
        let bench = EngineBench()
        let ourselves = Endpoint(IPAddress(v4: 0x0a00_0001), 5060)
        bench.register(token: nil, from: ourselves)
        #expect(story(bench.invite()) == ["100 invite > pbx", "480 invite > pbx"])
    }

    @Test func `an upstream that is this daemon gets nothing`() {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.1:5060") }
        #expect(story(bench.receive(bench.inviteText())) == ["100 invite > phone", "482 invite > phone"])
    }

    @Test func `an upstream whose name leads to this daemon gets nothing, and another address of it does`() {
        let ourselves = ResolvedHop(transport: .udp, endpoint: Endpoint(IPAddress(v4: 0x0a00_0001), 5060))
        let other = ResolvedHop(transport: .udp, endpoint: EngineBench.pbx)
        for (hops, end) in [([ourselves], "482 invite > phone"), ([ourselves, other], "invite > pbx")] {
            let bench = EngineBench { $0.upstream = NextHop("sip:pbx.example.org") }
            guard case .resolve(_, let ticket) = bench.receive(bench.inviteText()).last else {
                Issue.record("no look-up")
                continue
            }
            bench.engine.resolved(ticket, to: hops, now: bench.now)
            #expect(story(bench.take()) == [end])
        }
    }

    @Test(arguments: [
        ("0.0.0.0:5060", "127.0.0.1:5060", true), ("0.0.0.0:5060", "127.9.9.9:5060", true),
        ("0.0.0.0:5060", "192.0.2.77:5060", true), ("0.0.0.0:5060", "0.0.0.0:5060", true),
        ("0.0.0.0:5060", "192.0.2.78:5060", false), ("0.0.0.0:5060", "127.0.0.1:5061", false),
        ("192.0.2.77:5060", "192.0.2.77:5060", true), ("192.0.2.77:5060", "127.0.0.1:5060", false),
        ("192.0.2.77:5060", "203.0.113.1:5060", true), ("127.0.0.1:5060", "0.0.0.0:5060", true),
        ("[::]:5060", "[::1]:5060", true), ("[::]:5060", "127.0.0.1:5060", false),
    ])
    func `the daemon's own addresses`(bound: String, place: String, isOurs: Bool) throws {
        let listener = Listener(
            number: 0, transport: .udp, bound: try #require(Endpoint(bound)), sentBy: ByteString("203.0.113.1:5060"))
        let identity = LocalIdentity(
            listeners: [listener], domains: [], machine: [IPAddress("192.0.2.77")].compactMap { $0 })
        #expect(identity.isOurs(.udp, try #require(Endpoint(place))) == isOurs)
        #expect(!identity.isOurs(.tcp, try #require(Endpoint(place))))
    }

    @Test func `other listeners of this program count as its own addresses as well`() throws {
        let identity = LocalIdentity(
            listeners: [], domains: [], machine: [IPAddress("192.0.2.77")].compactMap { $0 },
            others: [try #require(Endpoint("0.0.0.0:8080"))])
        #expect(identity.isOurs(.tcp, try #require(Endpoint("127.0.0.1:8080"))))
        #expect(identity.isOurs(.tcp, try #require(Endpoint("192.0.2.77:8080"))))
        #expect(!identity.isOurs(.tcp, try #require(Endpoint("192.0.2.77:5060"))))
    }

    @Test(arguments: [("off", "480"), ("digest", "404")])
    func `a user whose contact has expired is 480 if there are no passwords`(auth: String, status: String) throws {
        let bench = EngineBench()
        bench.register(token: nil, expires: 60)
        _ = bench.pass(.seconds(61))
        var settings = bench.engine.settings
        settings.authenticates = auth == "digest"
        bench.engine.settingsChanged(settings, now: bench.now)
        #expect(story(bench.invite()) == ["\(status) invite > pbx"])
        #expect(story(bench.invite(to: "nobody", callID: "c2", branch: "i2")) == ["404 invite > pbx"])
    }

    @Test func `a phone whose connection ended with the last run is pushed, and one without push is called back`()
        throws
    {
        let pushed = EngineBench { $0.call.skipPushWithin = .seconds(600) }
        let row = { (bench: EngineBench, contact: String, isPush: Bool) in
            StoredBinding(
                id: DeviceID(rawValue: 5),
                aor: EngineBench.bob,
                contact: ByteString(contact), callID: ByteString("r0"), cseq: 1, path: [],
                flow: Flow(transport: .tcp, listener: 1, connection: 0, remote: EngineBench.phone), granted: 3600,
                freshUntil: bench.now.date + Duration.seconds(3600), registeredAt: bench.now.date, isPush: isPush)
        }
        let withToken = row(pushed, "<sip:bob@10.0.0.2:5060;pn-provider=fcm;pn-param=p;pn-prid=tok1>", true)
        #expect(pushed.engine.restore(withToken, now: pushed.now))
        #expect(story(pushed.invite()) == ["100 invite > pbx", "push invite tok1"])
        let message = pushed.inviteText(callID: "m1", branch: "m").replacing("INVITE", with: "MESSAGE")
        #expect(story(pushed.receive(message, from: EngineBench.pbx)) == ["push NotifyTextMessage tok1"])

        let ordinary = EngineBench()
        #expect(ordinary.engine.restore(row(ordinary, "<sip:bob@10.0.0.2:5090>", false), now: ordinary.now))
        #expect(story(ordinary.invite()) == ["100 invite > pbx", "invite > 192.0.2.5:5090"])
    }

    // MARK: Path

    @Test func `a REGISTER with a phone's own Path is refused with a reason`() throws {
        let bench = EngineBench()
        let out = bench.receive(registerText(contact: "<sip:bob@192.0.2.5>", path: "<sip:10.0.0.2;lr>"))
        #expect(story(out) == ["403 register > phone"])
        #expect(try #require(out.texts.first).contains("\r\nWarning: 399 example.net \""))
    }

    @Test(arguments: [
        ("<sip:10.0.0.4:5062;lr>", "10.0.0.4:5062"), ("<sip:t0ken@10.0.0.4:5062;lr;ob>;x=y", "10.0.0.4:5062"),
        ("\"An <edge>\" <sip:10.0.0.4;lr>", "10.0.0.4:5060"),
    ])
    func `the Path of a trusted edge decides the next hop`(path: String, place: String) throws {
        let bench = EngineBench { $0.trusted += [TrustedPeer("10.0.0.3")].compactMap { $0 } }
        let first = bench.receive(registerText(contact: "<sip:bob@192.0.2.5:9>", path: path), from: Self.edge)
        _ = bench.commitAll(in: first)
        let out = bench.invite()
        #expect(story(out) == ["100 invite > pbx", "invite > \(place)"])
        let invite = try #require(out.texts.last)
        #expect(invite.hasPrefix("INVITE sip:bob@192.0.2.5:9 SIP/2.0\r\n"))
        #expect(invite.contains("\r\nRoute: \(path)\r\n"))
    }

    @Test func `a Path with a name is looked up, and one that leads to this daemon is not followed`() {
        let bench = EngineBench { $0.trusted += [TrustedPeer("10.0.0.3")].compactMap { $0 } }
        let first = bench.receive(
            registerText(contact: "<sip:bob@192.0.2.5>", path: "<sip:edge.example.org;lr>"), from: Self.edge)
        _ = bench.commitAll(in: first)
        #expect(story(bench.invite()) == ["100 invite > pbx", "resolve"])

        let own = EngineBench { $0.trusted += [TrustedPeer("10.0.0.3")].compactMap { $0 } }
        _ = own.commitAll(
            in: own.receive(
                registerText(contact: "<sip:bob@192.0.2.5>", path: "<sip:10.0.0.1:5060;lr>"), from: Self.edge))
        #expect(story(own.invite()) == ["100 invite > pbx", "480 invite > pbx"])
    }

    @Test(arguments: [
        ("<sip:10.0.0.1:5060;lr>, <sip:10.0.0.4:5062;lr>", EngineBench.pbx, "10.0.0.4:5062"),
        ("<sip:10.0.0.4;lr>, <sip:10.0.0.9;lr>", EngineBench.pbx, "10.0.0.4:5060"),
        ("<sip:10.0.0.1:5060;lr>", EngineBench.pbx, "phone"),
        ("<sip:10.0.0.4:5062;lr>", Endpoint(IPAddress(v4: 0xc000_0206), 5060), "phone"),
    ])
    func `a PBX's further Route decides the next hop, also of a phone whose connection is gone`(
        route: String, source: Endpoint, place: String
    ) throws {
        for isGone in [false, true] where !isGone || place != "phone" {
            let bench = EngineBench()
            let phone = isGone ? Flow(transport: .tcp, listener: 1, connection: 7, remote: EngineBench.phone) : nil
            bench.register(token: nil, on: phone ?? EngineBench.udp(EngineBench.phone))
            if let phone { bench.engine.flowClosed(phone, now: bench.now) }
            let out = bench.receive(bench.inviteText(extra: ["Route: \(route)"]), from: source)
            #expect(story(out).last == "invite > \(place)")
            let invite = try #require(out.texts.last)
            #expect(invite.hasPrefix("INVITE sip:bob@192.0.2.5:40000 SIP/2.0\r\n"))
            let rows = invite.split(separator: "\r\n").filter { $0.hasPrefix("Route: ") }.joined()
            #expect(rows.contains("10.0.0.4") == (place != "phone") && !rows.contains("10.0.0.1:"))
            let message = bench.inviteText(callID: "m1", branch: "m1", extra: ["Route: \(route)"])
                .replacing("INVITE", with: "MESSAGE")
            #expect(story(bench.receive(message, from: source)).last == "message > \(place)")
        }
    }

    @Test func `an edge that is not trusted any more gets the request where it registered from`() {
        let bench = EngineBench { $0.trusted += [TrustedPeer("10.0.0.3")].compactMap { $0 } }
        _ = bench.commitAll(
            in: bench.receive(
                registerText(contact: "<sip:bob@192.0.2.5>", path: "<sip:10.0.0.4:5062;lr>"), from: Self.edge))
        var settings = bench.engine.settings
        settings.trusted = [TrustedPeer("10.0.0.2")].compactMap { $0 }
        bench.engine.settingsChanged(settings, now: bench.now)
        #expect(story(bench.invite()) == ["100 invite > pbx", "invite > 10.0.0.3:5060"])
    }

    // MARK: Max-Breadth

    private func registerMany(_ bench: EngineBench, _ count: Int) {
        for number in 0..<count {
            bench.register(
                token: nil, callID: "r\(number)", from: Endpoint(EngineBench.phone.address, UInt16(30_000 + number)))
        }
    }

    @Test(arguments: [
        (nil, "10"), ("60", "10"), ("1000000", "10"), ("99999999999999999999", "10"), ("6", "1"), ("13", "2"),
    ])
    func `Max-Breadth is divided among the branches`(value: String?, share: String) {
        let bench = EngineBench()
        registerMany(bench, 6)
        let out = bench.invite(extra: value.map { ["Max-Breadth: \($0)"] } ?? [])
        let invites = out.texts.filter { $0.hasPrefix("INVITE") }
        #expect(invites.count == 6)
        for invite in invites {
            #expect(invite.contains("\r\nMax-Breadth: \(share)\r\n"))
            #expect(invite.ranges(of: "Max-Breadth").count == 1)
        }
    }

    @Test(arguments: [("5", "440"), ("0", "440"), ("x", "400"), ("-1", "400")])
    func `a breadth that does not suffice is 440`(value: String, status: String) {
        let bench = EngineBench()
        registerMany(bench, 6)
        #expect(story(bench.invite(extra: ["Max-Breadth: \(value)"])) == ["\(status) invite > pbx"])
    }

    @Test func `toward the upstream the breadth is forwarded`() throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        #expect(try #require(bench.receive(bench.inviteText()).texts.last).contains("\r\nMax-Breadth: 60\r\n"))
        let more = bench.receive(bench.inviteText(callID: "c2", branch: "i2", extra: ["Max-Breadth: 4"]))
        #expect(try #require(more.texts.last).contains("\r\nMax-Breadth: 4\r\n"))
        let none = bench.receive(bench.inviteText(callID: "c3", branch: "i3", extra: ["Max-Breadth: 0"]))
        #expect(story(none) == ["440 invite > phone"])
    }

    // MARK: sips

    @Test(arguments: ["INVITE", "MESSAGE", "OPTIONS", "REGISTER"])
    func `a sips request is 480 with a Warning`(method: String) throws {
        let bench = EngineBench.registered()
        let text = bench.inviteText().replacing("INVITE", with: method)
            .replacing("\(method) sip:bob", with: "\(method) sips:bob")
        let out = bench.receive(text, from: EngineBench.pbx)
        #expect(story(out) == ["480 \(method.lowercased()) > pbx"])
        #expect(try #require(out.texts.first).contains("\r\nWarning: 380 example.net \"SIPS Not Allowed\"\r\n"))
    }

    @Test func `a sips Route of a trusted peer is 480 with a Warning`() throws {
        let bench = EngineBench.registered(token: nil)
        let out = bench.invite(extra: ["Route: <sip:10.0.0.1:5060;lr>", "Route: <sips:10.0.0.2;lr>"])
        #expect(story(out) == ["480 invite > pbx"])
        #expect(try #require(out.texts.first).contains("\r\nWarning: 380 example.net \"SIPS Not Allowed\"\r\n"))
    }

    @Test func `a sips contact is not accepted, and a stored one gets nothing`() throws {
        let bench = EngineBench()
        let out = bench.receive(registerText(contact: "<sips:bob@192.0.2.5>"))
        #expect(story(out) == ["403 register > phone"])
        #expect(try #require(out.texts.first).contains("\r\nWarning: 380 example.net \"SIPS Not Allowed\"\r\n"))
        let old = StoredBinding(
            id: DeviceID(rawValue: 5), aor: EngineBench.bob,
            contact: ByteString("<sips:bob@192.0.2.5;pn-provider=fcm;pn-param=p;pn-prid=tok1>"),
            callID: ByteString("r0"), cseq: 1, path: [], flow: EngineBench.udp(EngineBench.phone), granted: 3600,
            freshUntil: bench.now.date + Duration.seconds(3600), registeredAt: bench.now.date, isPush: true)
        #expect(bench.engine.restore(old, now: bench.now))
        let call = bench.invite()
        #expect(story(call) == ["480 invite > pbx"])
        #expect(try #require(call.texts.first).contains("\r\nWarning: 380 "))
        // The phone can still remove its contact: the daemon accepts the REGISTER that signs the phone out.
        let end = bench.receive(registerText(contact: "<sips:bob@192.0.2.5;pn-prid=tok1>;expires=0", cseq: 2))
        #expect(story(end + bench.commitAll(in: end)) == ["commit", "200 register > phone"])
    }

    // MARK: RFC 3261 section 18.1.1

    private func large(_ bench: EngineBench, _ number: Int = 1) -> [UInt8] {
        bench.inviteText(callID: "big\(number)", branch: "big\(number)")
            .replacing("\r\nCall-ID:", with: "\r\nSubject: \(String(repeating: "x", count: 1200))\r\nCall-ID:")
    }

    @Test func `a large request goes by TCP, and as a datagram when that is refused`() throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        let first = bench.receive(large(bench))
        guard case .send(let bytes, let flow) = first.last else {
            Issue.record("nothing sent")
            return
        }
        #expect(flow == Flow(transport: .tcp, listener: 1, connection: 0, remote: EngineBench.pbx))
        #expect(String(decoding: bytes, as: UTF8.self).contains("\r\nVia: SIP/2.0/TCP 10.0.0.1:5060;"))
        #expect(first.count { if case .send(_, let flow) = $0 { flow.remote == EngineBench.pbx } else { false } } == 1)

        bench.engine.sendFailed(on: flow, now: bench.now)
        guard case .send(let again, let datagram) = bench.take().last else {
            Issue.record("no second try")
            return
        }
        #expect(datagram == EngineBench.udp(EngineBench.pbx))
        let text = String(decoding: again, as: UTF8.self)
        #expect(text.contains("\r\nVia: SIP/2.0/UDP 10.0.0.1:5060;") && text.contains("\r\nRecord-Route: "))
        #expect(!text.contains("transport=tcp"))

        // The proxy sends the request over UDP, because it remembers for some minutes that TCP does not work.
        #expect(bench.receive(large(bench, 2)).last.map(Self.transport) == .udp)
        _ = bench.pass(.seconds(301))
        #expect(bench.receive(large(bench, 3)).last.map(Self.transport) == .tcp)
    }

    @Test func `where DNS names a place for TCP, large requests go there, and small ones do not`() throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:pbx.example.org") }
        let datagrams = Endpoint(IPAddress(v4: 0x0a00_0003), 5070)
        let streams = Endpoint(IPAddress(v4: 0x0a00_0004), 5080)
        func resolve(_ actions: [ProxyAction]) throws -> Flow? {
            guard case .resolve(_, let ticket) = try #require(actions.last) else { return nil }
            let hops = [
                ResolvedHop(transport: .udp, endpoint: datagrams), ResolvedHop(transport: .tcp, endpoint: streams),
            ]
            bench.engine.resolved(ticket, to: hops, now: bench.now)
            return bench.take().lastFlow
        }
        #expect(try resolve(bench.receive(bench.inviteText())) == EngineBench.udp(datagrams))
        let tcp = Flow(transport: .tcp, listener: 1, connection: 0, remote: streams)
        #expect(try resolve(bench.receive(large(bench))) == tcp)
        bench.engine.sendFailed(on: tcp, now: bench.now)
        #expect(bench.take().lastFlow == EngineBench.udp(datagrams))
        #expect(try resolve(bench.receive(large(bench, 2))) == EngineBench.udp(datagrams))
    }

    @Test func `a request that has arrived over TCP is not sent again when the connection breaks`() throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        let sent = try #require(sentRequest(bench.receive(large(bench))))
        _ = bench.receive(SIPText.response(100, to: sent, tag: "x"), from: EngineBench.pbx)
        let flow = Flow(transport: .tcp, listener: 1, connection: 0, remote: EngineBench.pbx)
        bench.engine.sendFailed(on: flow, now: bench.now)
        #expect(story(bench.take()) == ["500 invite > phone"])
    }

    @Test func `small requests, and those to a hop that says udp, stay datagrams`() {
        let small = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        #expect(small.receive(small.inviteText()).last.map(Self.transport) == .udp)
        let fixed = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060;transport=udp") }
        #expect(fixed.receive(large(fixed)).last.map(Self.transport) == .udp)
        let phone = EngineBench.registered(token: nil)
        #expect(phone.receive(large(phone), from: EngineBench.pbx).last.map(Self.transport) == .udp)
    }

    private static func transport(_ action: ProxyAction) -> Transport? {
        guard case .send(_, let flow) = action else { return nil }
        return flow.transport
    }

    // MARK: Requests that the daemon itself answers

    @Test(arguments: [
        ("MESSAGE", "483"), ("BYE", "483"), ("SUBSCRIBE", "483"), ("FOO", "483"), ("INVITE", "483"), ("OPTIONS", "200"),
    ])
    func `no hops left`(method: String, status: String) {
        let bench = EngineBench.registered()
        let text = bench.inviteText().replacing("INVITE", with: method)
            .replacing("Max-Forwards: 70", with: "Max-Forwards: 0")
        let out = story(bench.receive(text, from: EngineBench.pbx))
        #expect(out == ["\(status) \(method == "FOO" ? "other(FOO)" : method.lowercased()) > pbx"])
    }

    @Test func `a REGISTER without hops is served if it is for this proxy`() {
        let bench = EngineBench()
        let text = registerText(contact: "<sip:bob@192.0.2.5>")
            .replacing("Max-Forwards: 70", with: "Max-Forwards: 0")
        let first = bench.receive(text)
        #expect(story(first + bench.commitAll(in: first)) == ["commit", "200 register > phone"])
        let foreign = text.replacing("REGISTER sip:example.net", with: "REGISTER sip:example.org")
            .replacing("branch=z9hG4bK", with: "branch=z9hG4bKx")
        #expect(story(bench.receive(foreign)) == ["483 register > phone"])
    }

    @Test(arguments: [
        ("Proxy-Require: x, y", "x, y"), ("Proxy-Require: path", "path"),
        ("Proxy-Require: x\r\nProxy-Require: y", "x, y"),
    ])
    func `420 names the unsupported extensions`(field: String, unsupported: String) throws {
        let bench = EngineBench()
        let out = bench.invite(extra: [field])
        #expect(story(out) == ["420 invite > pbx"])
        #expect(try #require(out.texts.first).contains("\r\nUnsupported: \(unsupported)\r\n"))
    }

    @Test(arguments: [
        ("Require: answermode", "answermode"), ("Require: path, x , outbound,y", "x, y"), ("Require: Path, gruu", nil),
        ("Require: ", nil),
    ])
    func `Require is checked in requests that the proxy answers itself`(field: String, unsupported: String?) {
        let bench = EngineBench()
        let register = bench.receive(registerText(contact: "<sip:bob@192.0.2.5>", more: [field]))
        let options = SIPText.bytes([
            "OPTIONS sip:example.net SIP/2.0", "Via: SIP/2.0/UDP 10.0.0.2:5060;branch=z9hG4bKo",
            "From: <sip:a@example.net>;tag=1", "To: <sip:example.net>", "Call-ID: o", "CSeq: 1 OPTIONS", field,
            "Max-Forwards: 70",
        ])
        let asked = bench.receive(options, from: EngineBench.pbx)
        guard let unsupported else {
            #expect(story(register).first == "commit" && story(asked) == ["200 options > pbx"])
            return
        }
        #expect(story(register) == ["420 register > phone"] && story(asked) == ["420 options > pbx"])
        for text in register.texts + asked.texts { #expect(text.contains("\r\nUnsupported: \(unsupported)\r\n")) }
    }

    @Test func `Require of other requests is for their receivers`() {
        let bench = EngineBench.registered(token: nil)
        #expect(story(bench.invite(extra: ["Require: 100rel"])) == ["100 invite > pbx", "invite > phone"])
    }
}

extension EngineBench {
    fileprivate func register(token: String?, on flow: Flow) {
        _ = commitAll(in: receive(registerText(token: token, from: flow.remote), on: flow))
    }
}

extension [ProxyAction] {
    fileprivate var lastFlow: Flow? {
        guard case .send(_, let flow) = last else { return nil }
        return flow
    }
}
