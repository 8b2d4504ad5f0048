import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

extension EngineBench {
    /// Reports a device over the API, and waits until the store has written it.
    @discardableResult
    fileprivate func report(
        _ token: String = "tok1", param: String = "p", label: String = "", number: UInt64 = 1
    ) -> [ProxyAction] {
        engine.deviceReported(
            ReportedDevice(
                token: PushToken(provider: .fcm, param: ByteString(param), prid: ByteString(token)),
                label: ByteString(label)),
            of: EngineBench.bob, ReportTicket(number), now: now)
        let first = take()
        return first + commitAll(in: first)
    }

    /// Reports a device in the format of Acrobits' push server.
    @discardableResult
    fileprivate func reportMediated(
        calls: String?, other: String? = nil, selector: String = "S:1", number: UInt64 = 1
    ) -> [ProxyAction] {
        func part(_ token: String?, _ app: String) -> ReportedTokens.Part {
            ReportedTokens.Part(token: token.map { ByteString($0) }, appID: ByteString(app))
        }
        let told = ReportedTokens(
            form: .acrobits, calls: part(calls, "app.voip"), other: part(other, "app"), selector: ByteString(selector))
        engine.deviceReported(ReportedDevice(told), of: EngineBench.bob, ReportTicket(number), now: now)
        let first = take()
        return first + commitAll(in: first)
    }

    /// Lets the simulated push providers accept the given pushes.
    fileprivate func accept(_ pushes: [PushID]) {
        for id in pushes { finish(id) }
        take()
    }

    fileprivate func withdraw(_ selection: DeviceSelection, number: UInt64 = 9) -> [ProxyAction] {
        engine.devicesWithdrawn(selection, of: EngineBench.bob, ReportTicket(number), now: now)
        let first = take()
        return first + commitAll(in: first)
    }
}

extension PhoneStory.Step {
    fileprivate static func report(of token: String = "tok1", label: String = "", _ told: String...) -> Self {
        Self("report of \(token)", told) { $0.said($0.bench.report(token, label: label, number: $0.nextReport())) }
    }

    /// A report of a device that is written to the disk.
    fileprivate static var reported: Self { .report("commit", "report 1 done(1)") }

    /// A report of a device in the format of Acrobits' push server, and a call. If `isPushed` is true, the push for the
    /// call is accepted.
    fileprivate static func mediated(isPushed: Bool = true) -> Self {
        Self("call to a device of the mediator", []) { phone in
            phone.bench.reportMediated(calls: "C", other: "O")
            let told = phone.call()
            if isPushed { phone.give(.accepted(nil)) }
            return told
        }.pushes("push invite C:calls&O:other")
    }

    fileprivate static func withdraw(_ selection: DeviceSelection, _ told: String...) -> Self {
        Self("\(selection) withdrawn", told) { $0.said($0.bench.withdraw(selection, number: $0.nextReport())) }
    }
}

@Suite struct `Devices that are reported over HTTP` {
    @Test(arguments: [
        PhoneStory("are on disk before the answer, and calls wake them", .reported, .wakingCall),
        PhoneStory(
            "with a new token under the same label replace the old one",
            .report(label: "a", "commit", "report 1 done(1)"),
            .report(of: "tok2", label: "a", "commit", "report 2 done(1)"),
            .call().pushes("push invite tok2")),
        PhoneStory(
            "with the same token under a new label move to it", .report(label: "one", "commit", "report 1 done(1)"),
            .report(label: "two", "commit", "report 2 done(1)"), .devices(1),
            .withdraw(.label(ByteString("one")), "report 3 done(0)"),
            .withdraw(.label(ByteString("two")), "commit", "report 4 done(1)")),
        PhoneStory(
            "are gone when they are withdrawn, and the call with them", .reported, .wakingCall,
            .withdraw(.token(ByteString("tok1")), "commit", "480 invite > pbx", "report 2 done(1)"),
            .withdraw(.all, "report 3 done(0)")),
        PhoneStory(
            "beyond the user's number are refused", where: { $0.registrar.maxContacts = 1 }, .reported,
            .report(of: "tok2", "report 2 tooManyDevices")),
        PhoneStory(
            "of a provider that is off are refused", where: { $0.configuredProviders = [] },
            .report("report 1 notSupported(PushDelivery.TokenProblem.providerOff)")),
    ])
    func `are kept and withdrawn`(story: PhoneStory) { #expect(story.faults == []) }

    @Test(arguments: [
        PhoneStory(
            "get the call there, once", .reported, .wakingCall,
            .register(token: nil, commits: true, "invite > 0"), .refresh(token: nil).without("invite")),
        PhoneStory(
            "do not get a call again that their ordinary contact has", .reported, .register(token: nil),
            .call("100 invite > pbx", "push invite tok1", "invite > 0"), .refresh(token: nil).without("invite")),
        PhoneStory(
            "get no call that was cancelled", .reported, .wakingCall,
            .cancel("200 cancel > pbx", "487 invite > pbx"), .register(token: nil).without("invite")),
        PhoneStory(
            "get no call that nobody waits for any more", .reported, .wakingCall, .pass(31).unseen,
            .register(token: nil).without("invite")),
        PhoneStory(
            "hear of missed calls", .reported, .wakingCall, .pass(31).unseen,
            .register(token: nil).including("push missed 103 tok1")),
        PhoneStory(
            "are not registered by a sign-out", .reported, .register(token: nil), .call().unseen,
            .refresh(token: nil, expires: 0, commits: true).without("invite"), .devices(1)),
    ])
    func `when their user registers without a token`(story: PhoneStory) { #expect(story.faults == []) }

    @Test(arguments: [
        PhoneStory(
            "are told so, when they were woken and did not come", where: { $0.configuredProviders = [.acrobits] },
            .mediated(), .cancel().pushes("push NotifyIncomingCallMissed C:calls&O:other")),
        PhoneStory(
            "are told so at the deadline", where: { $0.configuredProviders = [.acrobits] }, .mediated(),
            .pass(31).pushes("push NotifyIncomingCallMissed C:calls&O:other")),
        PhoneStory(
            "are not, when the provider has not taken the push: nobody rings",
            where: { $0.configuredProviders = [.acrobits] }, .mediated(isPushed: false), .cancel().without("push")),
        PhoneStory(
            "are not, when they came: they have got the call, and get a CANCEL",
            where: { $0.configuredProviders = [.acrobits] }, .mediated(), .register(token: nil).unseen,
            .cancel().without("push")),
        PhoneStory(
            "are not, when their app has no word for it", .reported, .wakingCall, .push(.accepted(nil)),
            .cancel().without("push")),
    ])
    func `when a call is over`(story: PhoneStory) { #expect(story.faults == []) }

    @Test func `that register with their token are the same device`() {
        let bench = EngineBench()
        bench.report(label: "selector")
        bench.invite()
        #expect(story(bench.register()) == ["commit", "200 register > phone", "invite > phone"])
        #expect(bench.targets.count == 1)
        // A report about a device that is already stored changes neither the device's contact nor its flow.
        bench.report(label: "selector", number: 2)
        let target = bench.targets.first
        #expect(target?.flow.remote == EngineBench.phone)
        #expect(bench.targets.count == 1)
    }

    @Test func `that register with two of Apple's tokens are the device that was known by one of them`() {
        let bench = EngineBench { $0.configuredProviders = [.apns] }
        let (voip, remote) = (String(repeating: "a", count: 64), String(repeating: "b", count: 64))
        func reportRemote(_ number: UInt64) -> [ProxyAction] {
            let token = PushToken(
                provider: .apns, param: ByteString("TEAM.com.example.phone"), prid: ByteString(remote))
            bench.engine.deviceReported(
                ReportedDevice(token: token, label: .empty), of: EngineBench.bob, ReportTicket(number), now: bench.now)
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
                == ["commit", "200 register > phone", "invite > phone"])
        // A new report about one device leaves the user's other device unchanged.
        #expect(story(reportRemote(2)).last == "report 2 done(1)")
        let targets = bench.targets
        #expect(targets.map(\.pushToken?.prid) == [ByteString("\(voip):voip&\(remote):remote")])
        #expect(story(bench.withdraw(.token(ByteString(remote)))) == ["commit", "report 9 done(1)"])
        #expect(bench.targets.isEmpty)
    }

    private static let other = Endpoint(IPAddress(v4: 0xc000_0206), 40_001)
    private static let third = Endpoint(IPAddress(v4: 0xc000_0207), 40_002)

    @Test func `two of them get the call each, where their user's phones register without a token`() {
        let bench = EngineBench()
        bench.report("tok1", label: "one")
        bench.report("tok2", label: "two", number: 2)
        bench.invite()
        #expect(story(bench.register(token: nil)) == ["commit", "200 register > phone", "invite > phone"])
        // A refresh of the same contact does not count as another phone.
        let refresh = story(bench.register(token: nil, cseq: 2))
        #expect(!refresh.contains { $0.hasPrefix("invite") })
        let second = story(bench.register(token: nil, callID: "r2", from: Self.other))
        #expect(second.filter { $0.hasPrefix("invite") } == ["invite > \(Self.other)"])
        let late = story(bench.register(token: nil, callID: "r3", from: Self.third))
        #expect(!late.contains { $0.hasPrefix("invite") })
    }

    @Test func `if one of two devices was woken, the phone that comes counts as this one`() {
        for index in 0...1 {
            let bench = EngineBench()
            bench.report("tok1", label: "one")
            bench.report("tok2", label: "two", number: 2)
            let pushes = bench.invite()
            bench.accept([pushes.pushIDs[index]])
            // The call still waits for bob's second device, whose push the provider has not accepted yet.
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

    @Test func `get the call where their ordinary contact is now, when it went to where that was`() {
        let bench = EngineBench()
        bench.report()
        bench.register(token: nil)
        bench.invite()
        // The phone registers the same contact from another port of its NAT.
        let text = SIPText.register(
            user: "bob", from: EngineBench.phone, callID: "r1", cseq: 2, branch: "r1x2",
            contact: "<sip:bob@\(EngineBench.phone)>")
        let first = bench.receive(text, from: Self.other)
        let actions = story(first + bench.commitAll(in: first))
        #expect(actions.contains("invite > \(Self.other)"))
        #expect(bench.targets.count == 2)
        // A second phone that registers gets the call too, because the push may have woken the second phone.
        let woken = story(bench.register(token: nil, callID: "r2", from: Self.third))
        #expect(woken.contains("invite > \(Self.third)"))
    }

    // MARK: Ends of calls that a phone was told of

    @Test(arguments: [200, 603] as [Status])
    func `the mediator gets the answer of another phone, if it is another`(status: Status) throws {
        for token in ["tok1", nil] {
            let bench = EngineBench { $0.configuredProviders = [.acrobits, .fcm] }
            bench.register(token: token)
            bench.reportMediated(calls: "C", other: "O")
            let offered = bench.invite()
            bench.accept(offered.pushIDs.reversed())
            // A phone that registers without a push token gets the call immediately, because it may be the woken phone.
            let invite = try #require(sentRequest(token == nil ? offered : bench.register(cseq: 2)))
            let answer = bench.receive(SIPText.response(status, to: invite, tag: "b", contact: "sip:bob@10.1.1.1"))
            let ends = story(answer).filter { $0.hasPrefix("push") }
            #expect(ends == (token == nil ? [] : ["push NotifyIncomingCallAnsweredElsewhere C:calls&O:other"]))
            // The push about the answer names the call exactly as the push for the call did.
            for request in answer.pushes {
                guard case .notification(let notification) = request.message else { continue }
                #expect(notification.mediated?.id == ByteString("call1") && !notification.isInBadge)
            }
        }
    }

    @Test func `wait for their turn behind a REGISTER, and come after it`() {
        let bench = EngineBench()
        let first = bench.receive(bench.registerText())
        bench.engine.deviceReported(
            ReportedDevice(
                token: PushToken(provider: .fcm, param: ByteString("p"), prid: ByteString("tok1")), label: .empty),
            of: EngineBench.bob, ReportTicket(1), now: bench.now)
        #expect(story(bench.take()).isEmpty)
        let then = bench.commitAll(in: first)
        #expect(story(then) == ["200 register > phone", "commit"])
        #expect(story(bench.commitAll(in: then)) == ["report 1 done(1)"])
        #expect(bench.targets.count == 1)
    }

    /// A bench after ten calls that did not wake the device, so that further calls do not wait for it.
    private func unwoken() -> EngineBench {
        let bench = EngineBench { $0.call.noWake.usesRecord = true }
        bench.report()
        for number in 1...10 {
            bench.accept(bench.invite(callID: "m\(number)", branch: "m\(number)").pushIDs)
            _ = bench.pass(.seconds(91))
        }
        bench.accept(bench.invite(callID: "x", branch: "x").pushIDs)
        return bench
    }

    @Test func `are waited for again when their user registers, or when they have a new token`() {
        let idle = unwoken()
        #expect(idle.engine.heldCalls.isEmpty)

        let registered = unwoken()
        registered.register(token: nil, expires: 60)
        _ = registered.pass(.seconds(120))
        registered.accept(registered.invite(callID: "y", branch: "y").pushIDs)
        _ = registered.pass(.seconds(20))
        #expect(registered.engine.heldCalls.count == 1)
    }

    @Test func `that could not be stored are not there`() {
        let bench = EngineBench()
        bench.engine.deviceReported(
            ReportedDevice(token: PushToken(provider: .fcm, param: .empty, prid: ByteString("tok1")), label: .empty),
            of: EngineBench.bob, ReportTicket(1), now: bench.now)
        #expect(story(bench.commitAll(in: bench.take(), succeeded: false)) == ["report 1 unavailable"])
        #expect(story(bench.invite()) == ["404 invite > pbx"])
    }

    @Test func `come back after a restart`() throws {
        let bench = EngineBench()
        bench.report("a:b", param: "x; \"y", label: "l;1")
        let device = try #require(bench.targets.first)
        let stored = bench.engine.bindings.stored(device.id, now: bench.now)
        let row = try #require(stored)
        let engine = EngineFixture.engine(StoredState(), seed: 3)
        #expect(engine.restore(row, now: bench.now))
        let again = try #require(engine.targets(of: EngineBench.bob, now: bench.now).first)
        #expect(again.pushToken == device.pushToken)
        #expect(again.pushToken?.prid == ByteString("a:b"))
        #expect(!again.isReachable)
        #expect(Endpoint(row.flow.remote.description) == row.flow.remote)
    }
}
