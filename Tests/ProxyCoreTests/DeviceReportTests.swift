import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

private let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))

extension EngineBench {
    /// Tells of a device and lets the store write it.
    @discardableResult
    fileprivate func report(
        _ token: String = "tok1", param: String = "p", label: String = "", number: UInt64 = 1
    ) -> [ProxyAction] {
        engine.deviceReported(
            ReportedDevice(
                token: PushToken(provider: .fcm, param: ByteString(param), prid: ByteString(token)),
                label: ByteString(label)),
            of: bob, ReportTicket(number), now: now)
        let first = take()
        return first + commitAll(in: first)
    }

    /// Tells of a device in the mediator's form.
    @discardableResult
    fileprivate func reportMediated(
        calls: String?, other: String? = nil, selector: String = "S:1", number: UInt64 = 1
    ) -> [ProxyAction] {
        func part(_ token: String?, _ app: String) -> ReportedTokens.Part {
            ReportedTokens.Part(token: token.map { ByteString($0) }, appID: ByteString(app))
        }
        let told = ReportedTokens(
            form: .acrobits, calls: part(calls, "app.voip"), other: part(other, "app"), selector: ByteString(selector))
        engine.deviceReported(ReportedDevice(told), of: bob, ReportTicket(number), now: now)
        let first = take()
        return first + commitAll(in: first)
    }

    /// The providers take these pushes.
    fileprivate func accept(_ pushes: [PushID]) {
        for id in pushes { engine.pushFinished(id, outcome: .accepted(nil), now: now) }
        take()
    }

    /// The caller of the first call gives up.
    @discardableResult
    fileprivate func cancel() -> [ProxyAction] {
        guard let invite = readRequest(inviteText()) else { return [] }
        return receive(SIPText.hopRequest("CANCEL", for: invite), from: Self.pbx)
    }

    fileprivate func withdraw(_ selection: DeviceSelection, number: UInt64 = 9) -> [ProxyAction] {
        engine.devicesWithdrawn(selection, of: bob, ReportTicket(number), now: now)
        let first = take()
        return first + commitAll(in: first)
    }
}

@Suite struct `Devices that are reported over HTTP` {
    @Test func `are on disk before the answer, and calls wake them`() {
        let bench = EngineBench()
        #expect(story(bench.report()) == ["commit", "report 1 done(1)"])
        #expect(story(bench.invite()) == ["100 invite > pbx", "push invite tok1"])
    }

    @Test func `that register with their token are the same device`() {
        let bench = EngineBench()
        bench.report(label: "selector")
        bench.invite()
        #expect(
            story(bench.register())
                == ["commit", "200 register > phone", "drop push", "invite > phone"])
        #expect(bench.engine.targets(of: bob, now: bench.now).count == 1)
        // Told of again, it keeps its contact and its flow.
        bench.report(label: "selector", number: 2)
        let target = bench.engine.targets(of: bob, now: bench.now).first
        #expect(target?.flow.remote == EngineBench.phone)
        #expect(bench.engine.targets(of: bob, now: bench.now).count == 1)
    }

    @Test func `that register with two of Apple's tokens are the device that was known by one of them`() {
        let bench = EngineBench { $0.configuredProviders = [.apns] }
        let (voip, remote) = (String(repeating: "a", count: 64), String(repeating: "b", count: 64))
        func reportRemote(_ number: UInt64) -> [ProxyAction] {
            let token = PushToken(
                provider: .apns, param: ByteString("TEAM.com.example.phone"), prid: ByteString(remote))
            bench.engine.deviceReported(
                ReportedDevice(token: token, label: .empty), of: bob, ReportTicket(number), now: bench.now)
            let first = bench.take()
            return first + bench.commitAll(in: first)
        }
        #expect(story(reportRemote(1)) == ["commit", "report 1 done(1)"])
        bench.invite()
        let both = "pn-provider=apns;pn-param=TEAM.com.example.phone.voip&remote;pn-prid=\(voip):voip&\(remote):remote"
        let first = bench.receive(
            SIPText.register(
                user: "bob", from: EngineBench.phone, callID: "r1", cseq: 1, branch: "r1",
                contact: "<sip:bob@\(EngineBench.phone);\(both)>"))
        #expect(
            story(first + bench.commitAll(in: first))
                == ["commit", "200 register > phone", "drop push", "invite > phone"])
        // Told of one of them again, it keeps both.
        #expect(story(reportRemote(2)).last == "report 2 done(1)")
        let targets = bench.engine.targets(of: bob, now: bench.now)
        #expect(targets.map(\.pushToken?.prid) == [ByteString("\(voip):voip&\(remote):remote")])
        #expect(story(bench.withdraw(.token(ByteString(remote)))) == ["commit", "report 9 done(1)"])
        #expect(bench.engine.targets(of: bob, now: bench.now).isEmpty)
    }

    @Test func `get the call where their user registers without a token, once`() {
        let bench = EngineBench()
        bench.report()
        bench.invite()
        let actions = bench.register(token: nil)
        #expect(story(actions) == ["commit", "200 register > phone", "drop push", "invite > phone"])
        #expect(!story(bench.register(token: nil, cseq: 2)).contains("invite > phone"))
    }

    @Test func `do not get a call again that their ordinary contact has`() {
        let bench = EngineBench()
        bench.report()
        bench.register(token: nil)
        #expect(Set(story(bench.invite())) == ["100 invite > pbx", "push invite tok1", "invite > phone"])
        #expect(!story(bench.register(token: nil, cseq: 2)).contains("invite > phone"))
    }

    private static let other = Endpoint(IPAddress(v4: 0xc000_0206), 40_001)
    private static let third = Endpoint(IPAddress(v4: 0xc000_0207), 40_002)

    @Test func `two of them get the call each, where their user's phones register without a token`() {
        let bench = EngineBench()
        bench.report("tok1", label: "one")
        bench.report("tok2", label: "two", number: 2)
        bench.invite()
        #expect(
            story(bench.register(token: nil)) == ["commit", "200 register > phone", "drop push", "invite > phone"])
        // A refresh is no other phone.
        let refresh = story(bench.register(token: nil, cseq: 2))
        #expect(!refresh.contains { $0.hasPrefix("invite") })
        let second = story(bench.register(token: nil, callID: "r2", from: Self.other))
        #expect(second.filter { $0.hasPrefix("invite") } == ["invite > \(Self.other)"])
        let late = story(bench.register(token: nil, callID: "r3", from: Self.third))
        #expect(!late.contains { $0.hasPrefix("invite") })
    }

    @Test func `of two of them the one that was woken is taken for the one that comes`() {
        for index in 0...1 {
            let bench = EngineBench()
            bench.report("tok1", label: "one")
            bench.report("tok2", label: "two", number: 2)
            let pushes = bench.invite()
            bench.accept([pushes.pushIDs[index]])
            // The other's push is still wanted.
            #expect(story(bench.register(token: nil)) == ["commit", "200 register > phone", "invite > phone"])
        }
    }

    @Test func `do not get a call because another user registers, or another device that is pushed`() {
        let bench = EngineBench()
        bench.report()
        bench.invite()
        for actions in [
            bench.register(user: "eve", token: nil, callID: "r2", from: Self.other),
            bench.register(user: "eve", token: "tok1", callID: "r3", from: Self.other),
            bench.register(token: "tok9", callID: "r4", from: Self.third),
        ] {
            #expect(!story(actions).contains { $0.hasPrefix("invite") })
        }
        #expect(story(bench.register(token: nil)).contains("invite > phone"))
    }

    @Test func `get no call that nobody waits for any more`() {
        for isCancelled in [true, false] {
            let bench = EngineBench()
            bench.report()
            bench.invite()
            if isCancelled {
                bench.cancel()
            } else {
                _ = bench.pass(.seconds(31))
            }
            #expect(!story(bench.register(token: nil)).contains { $0.hasPrefix("invite") })
        }
    }

    @Test func `are not registered by a sign-out`() {
        let bench = EngineBench()
        bench.report()
        bench.register(token: nil)
        bench.invite()
        let actions = bench.register(token: nil, cseq: 2, expires: 0)
        #expect(!story(actions).contains { $0.hasPrefix("invite") })
        #expect(bench.engine.targets(of: bob, now: bench.now).count == 1)
    }

    @Test func `get the call where their ordinary contact is now, when it went to where that was`() {
        let bench = EngineBench()
        bench.report()
        bench.register(token: nil)
        bench.invite()
        // The same contact from behind another port of the NAT.
        let text = SIPText.register(
            user: "bob", from: EngineBench.phone, callID: "r1", cseq: 2, branch: "r1x2",
            contact: "<sip:bob@\(EngineBench.phone)>")
        let first = bench.receive(text, from: Self.other)
        let actions = story(first + bench.commitAll(in: first))
        #expect(actions.contains("invite > \(Self.other)") && !actions.contains("drop push"))
        #expect(bench.engine.targets(of: bob, now: bench.now).count == 2)
        // It may not be the phone that was woken.
        let woken = story(bench.register(token: nil, callID: "r2", from: Self.third))
        #expect(woken.contains("drop push") && woken.contains("invite > \(Self.third)"))
    }

    // MARK: Ends of calls that a phone was told of

    @Test func `of the mediator are told that the call is over, when they were woken and did not come`() {
        let bench = EngineBench { $0.configuredProviders = [.acrobits] }
        bench.reportMediated(calls: "C", other: "O")
        bench.accept(bench.invite().pushIDs)
        #expect(
            story(bench.cancel()).filter { $0.hasPrefix("push") }
                == ["push NotifyIncomingCallMissed C:calls&O:other"])

        let late = EngineBench { $0.configuredProviders = [.acrobits] }
        late.reportMediated(calls: "C", other: "O")
        late.accept(late.invite().pushIDs)
        #expect(
            story(late.pass(.seconds(31))).filter { $0.hasPrefix("push") }
                == ["push NotifyIncomingCallMissed C:calls&O:other"])

        // The provider has not taken the push: nobody rings.
        let early = EngineBench { $0.configuredProviders = [.acrobits] }
        early.reportMediated(calls: "C", other: "O")
        early.invite()
        #expect(!story(early.cancel()).contains { $0.hasPrefix("push") })

        // It came: it has got the call, and gets a CANCEL.
        let there = EngineBench { $0.configuredProviders = [.acrobits] }
        there.reportMediated(calls: "C", other: "O")
        there.accept(there.invite().pushIDs)
        there.register(token: nil)
        #expect(!story(there.cancel()).contains { $0.hasPrefix("push") })

        // Other apps have no word for it.
        let google = EngineBench()
        google.report()
        google.accept(google.invite().pushIDs)
        #expect(!story(google.cancel()).contains { $0.hasPrefix("push") })
    }

    @Test(arguments: [200, 603] as [Status])
    func `of the mediator are told that another phone has the call, when it is another`(status: Status) throws {
        for token in ["tok1", nil] {
            let bench = EngineBench { $0.configuredProviders = [.acrobits, .fcm] }
            bench.register(token: token)
            bench.reportMediated(calls: "C", other: "O")
            let offered = bench.invite()
            bench.accept(offered.pushIDs.reversed())
            // Without a token it has the call at once, and may be the phone that was woken.
            let invite = try #require(sentRequest(token == nil ? offered : bench.register(cseq: 2)))
            let answer = bench.receive(
                SIPText.response(status, to: invite, tag: "b", contact: "sip:bob@10.1.1.1"))
            let ends = story(answer).filter { $0.hasPrefix("push") }
            #expect(ends == (token == nil ? [] : ["push NotifyIncomingCallAnsweredElsewhere C:calls&O:other"]))
            // It names the call by what the first push named it.
            for case .push(let request) in answer {
                guard case .notification(let notification) = request.message else { continue }
                #expect(notification.mediated?.id == ByteString("call1") && !notification.isInBadge)
            }
        }
    }

    @Test func `hear of missed calls when their user registers without a token`() {
        let bench = EngineBench()
        bench.report()
        bench.invite()
        _ = bench.pass(.seconds(31))
        #expect(story(bench.register(token: nil)).contains("push missed 103 tok1"))
    }

    @Test func `with a new token under the same label replace the old one`() {
        let bench = EngineBench()
        bench.report(label: "selector")
        #expect(story(bench.report("tok2", label: "selector", number: 2)) == ["commit", "report 2 done(1)"])
        #expect(story(bench.invite()).filter { $0.hasPrefix("push") } == ["push invite tok2"])
    }

    @Test func `with the same token under a new label move to it`() {
        let bench = EngineBench()
        bench.report(label: "one")
        bench.report(label: "two", number: 2)
        #expect(bench.engine.targets(of: bob, now: bench.now).count == 1)
        #expect(story(bench.withdraw(.label(ByteString("one")))) == ["report 9 done(0)"])
        #expect(story(bench.withdraw(.label(ByteString("two")))) == ["commit", "report 9 done(1)"])
    }

    @Test func `are gone when they are withdrawn, and the call with them`() {
        let bench = EngineBench()
        bench.report()
        bench.invite()
        #expect(
            story(bench.withdraw(.token(ByteString("tok1"))))
                == ["commit", "drop push", "480 invite > pbx", "report 9 done(1)"])
        #expect(story(bench.withdraw(.all)) == ["report 9 done(0)"])
    }

    @Test func `of a provider that is off, or beyond the user's number, are refused`() {
        let bench = EngineBench { $0.registrar.maxContacts = 1 }
        bench.report()
        #expect(story(bench.report("tok2", number: 2)) == ["report 2 tooManyDevices"])
        let off = EngineBench { $0.configuredProviders = [] }
        #expect(story(off.report()) == ["report 1 notSupported"])
    }

    @Test func `wait for their turn behind a REGISTER, and come after it`() {
        let bench = EngineBench()
        let first = bench.receive(bench.registerText())
        bench.engine.deviceReported(
            ReportedDevice(
                token: PushToken(provider: .fcm, param: ByteString("p"), prid: ByteString("tok1")), label: .empty),
            of: bob, ReportTicket(1), now: bench.now)
        #expect(story(bench.take()).isEmpty)
        let then = bench.commitAll(in: first)
        #expect(story(then) == ["200 register > phone", "commit"])
        #expect(story(bench.commitAll(in: then)) == ["report 1 done(1)"])
        #expect(bench.engine.targets(of: bob, now: bench.now).count == 1)
    }

    @Test func `that could not be stored are not there`() {
        let bench = EngineBench()
        bench.engine.deviceReported(
            ReportedDevice(
                token: PushToken(provider: .fcm, param: .empty, prid: ByteString("tok1")), label: .empty),
            of: bob, ReportTicket(1), now: bench.now)
        #expect(story(bench.commitAll(in: bench.take(), succeeded: false)) == ["report 1 unavailable"])
        #expect(story(bench.invite()) == ["404 invite > pbx"])
    }

    @Test func `come back after a restart`() throws {
        let bench = EngineBench()
        bench.report("a;b\"c", param: "x y", label: "l;1")
        let device = try #require(bench.engine.targets(of: bob, now: bench.now).first)
        let stored = bench.engine.bindings.stored(device.id, now: bench.now)
        let row = try #require(stored)
        let engine = EngineFixture.engine(StoredState(), seed: 3)
        #expect(engine.restore(row, now: bench.now))
        let again = try #require(engine.targets(of: bob, now: bench.now).first)
        #expect(again.pushToken == device.pushToken)
        #expect(again.pushToken?.prid == ByteString("a;b\"c"))
        #expect(!again.isReachable)
        #expect(Endpoint(row.flow.remote.description) == row.flow.remote)
    }
}
