import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Returns a change to the setting that decides how the daemon notifies bob's phone of the end of a call.
private func afterEnd(
    _ wish: AfterEnd, _ payload: PayloadProfile = .ecss10, _ late: AfterLateInvite? = nil
) -> @Sendable (inout ProxySettings) -> Void {
    var push = PushSettings()
    push.fcm.enabled = true
    push.fcm.bodyFormat = .legacy
    push.fcm.afterEnd = wish
    push.fcm.payload = payload
    return { [push] in
        $0.dispatch.directory = PushDirectory(push)
        $0.missedCalls.afterLateInvite = late
    }
}

/// Device tokens in Apple's format.
private let one = String(repeating: "00ff", count: 16)
private let other = String(repeating: "11ee", count: 16)

extension PhoneStory.Step {
    /// Registers a phone, and then makes a call for which the provider accepts a push.
    fileprivate static var wokenPhone: Self {
        Self("a phone is woken", []) { phone in
            _ = phone.register(at: 0)
            return phone.call() + phone.give(.accepted(nil))
        }.including("push invite tok1")
    }
}

@Suite("Phones that register after the end of a call")
struct AfterEndTests {
    /// A bench on which a phone has got a push for a call.
    private func pushed(
        afterEnd: AfterEnd = .inviteCancel, _ change: (inout ProxySettings) -> Void = { _ in }
    ) -> EngineBench {
        let bench = EngineBench.registered {
            ProxyCoreTests.afterEnd(afterEnd)(&$0)
            change(&$0)
        }
        if let id = bench.invite().pushIDs.first {
            bench.finish(id)
        }
        bench.take()
        return bench
    }

    private func answer(_ bench: EngineBench, _ status: Status, to invite: SIPRequest) -> [ProxyAction] {
        bench.receive(SIPText.response(status, to: invite, tag: "b", contact: "sip:bob@192.0.2.5:40000;x=y"))
    }

    @Test(arguments: [
        PhoneStory(
            "it gets the INVITE and its CANCEL with the Reason, and at once the list with the call in it",
            where: afterEnd(.inviteCancel), .wokenPhone,
            .cancel(reasons: ["SIP;cause=487;text=\"x\""], "200 cancel > pbx", "487 invite > pbx"), .pass(20).unseen,
            .refresh("invite > 0", "push missed 103 tok1"), .lastInvite(of: "call1"), .answer(180, "cancel > 0"),
            .reasons("SIP;cause=487;text=\"x\""), .answer(487, "ack > 0"), .refresh()),
        PhoneStory(
            "what it says takes nothing out: a list that failed goes again", where: afterEnd(.inviteCancel),
            .wokenPhone, .cancel().unseen, .refresh("invite > 0", "push missed 103 tok1"), .answer(180, "cancel > 0"),
            .answer(487, "ack > 0"), .provider(.payloadRefused("no")), .refresh("push missed 103 tok1"),
            .provider(.accepted(nil)), .refresh()),
        PhoneStory(
            "one that says nothing to it gets the list as soon", where: afterEnd(.inviteCancel), .wokenPhone,
            .cancel().unseen, .refresh("invite > 0", "push missed 103 tok1"), .pass(40).unseen, .refresh()),
        PhoneStory(
            "ECSS-10 has no choice", where: afterEnd(.inviteCancel, .ecss10, AfterLateInvite.none), .wokenPhone,
            .cancel().unseen, .refresh("invite > 0", "push missed 103 tok1")),
        PhoneStory(
            "nor have 10darts' apps by default", where: afterEnd(.inviteCancel, .tenDarts), .wokenPhone,
            .cancel().unseen, .refresh("invite > 0", "push missed 103 tok1")),
        PhoneStory(
            "Linphone is asked first, and has no list of what it shows by itself",
            where: afterEnd(.inviteCancel, .linphone), .wokenPhone, .cancel().unseen, .refresh("invite > 0"),
            .answer(180, "cancel > 0"), .answer(487, "ack > 0"), .refresh(), .pass(3).unseen, .refresh()),
        PhoneStory(
            "Linphone may have the list as well", where: afterEnd(.inviteCancel, .linphone, .list), .wokenPhone,
            .cancel().unseen, .refresh("invite > 0", "push missed 103 tok1")),
        PhoneStory(
            "where it says nothing, the list goes after two seconds",
            where: afterEnd(.inviteCancel, .linphone), .wokenPhone, .cancel().unseen, .refresh("invite > 0"),
            .refresh(), .pass(1).unseen, .pass(1).including("push missed 103 tok1"), .answer(180, "cancel > 0"),
            .answer(487, "ack > 0"), .refresh()),
        PhoneStory(
            "a 503 is no answer", where: afterEnd(.inviteCancel, .linphone), .wokenPhone, .cancel().unseen,
            .refresh("invite > 0"), .answer(503, "ack > 0", "push missed 103 tok1")),
        PhoneStory(
            "it hears that somebody else answered", where: afterEnd(.inviteCancel), .wokenPhone,
            .cancel(reasons: ["Q.850;cause=26"], "200 cancel > pbx", "487 invite > pbx"), .refresh("invite > 0"),
            .answer(100, "cancel > 0"),
            .reasons("SIP;cause=200;text=\"Call completed elsewhere\"", "Q.850;cause=26")),
        PhoneStory(
            "a sign of life is a return as well", where: afterEnd(.inviteCancel), .wokenPhone, .pass(31).unseen,
            .keepAlive("invite > 0", "push missed 103 tok1"), .keepAlive()),
        PhoneStory(
            "after a minute it is too late", where: afterEnd(.inviteCancel), .wokenPhone, .cancel().unseen,
            .pass(61).unseen, .refresh("push missed 103 tok1")),
        PhoneStory(
            "after an hour it gets the list", where: afterEnd(.inviteCancel, .linphone), .wokenPhone,
            .cancel().unseen, .pass(3600).unseen, .refresh("push missed 103 tok1")),
        PhoneStory(
            "so it is where the app wants nothing", where: afterEnd(.none), .wokenPhone, .cancel().unseen,
            .refresh("push missed 103 tok1")),
    ])
    func `the outcome in its push`(story: PhoneStory) { #expect(story.faults == []) }

    /// A story in which another phone of bob answers the call. The function `delivered` tells the engine the outcomes
    /// of the pushes before the other phone answers.
    private func takenByAnother(
        _ wish: AfterEnd, _ delivered: (EngineBench, PushRequest) -> Void
    ) throws -> (bench: EngineBench, pushes: [PushRequest]) {
        let bench = EngineBench.registered(afterEnd(wish))
        let other = Endpoint(IPAddress(v4: 0xc000_0209), 40_009)
        bench.register(token: "tok9", callID: "r9", from: other)
        let pushes = bench.invite().pushes
        for push in pushes { delivered(bench, push) }
        let taken = try #require(sentRequest(bench.register(token: "tok9", callID: "r9", cseq: 2, from: other)))
        let answer = SIPText.response(200, to: taken, tag: "o", contact: "sip:bob@192.0.2.9")
        #expect(story(bench.receive(answer, from: other)).contains("200 invite > pbx"))
        return (bench, pushes)
    }

    @Test func `it gets the news that another phone of its user has answered`() throws {
        let (bench, _) = try takenByAnother(.inviteCancel) { bench, push in
            bench.finish(push.id)
        }
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        let told = self.answer(bench, 180, to: invite)
        #expect(story(told) == ["cancel > phone"])
        #expect(
            sentRequest(told)?.frame.firstValue(of: .reason)?.string
                == "SIP;cause=200;text=\"Call completed elsewhere\"")
        #expect(story(self.answer(bench, 487, to: invite)) == ["ack > phone"])
    }

    @Test func `a phone that answers by itself gets a BYE`() throws {
        let bench = pushed()
        bench.cancel()
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        let out = answer(bench, 200, to: invite)
        #expect(story(out) == ["ack > phone", "bye > phone"])
        let bye = try #require(sentRequest(out))
        #expect(bye.uri.text.string == "sip:bob@192.0.2.5:40000;x=y")
        #expect(bye.to.tag?.string == "b" && bye.from.tag == invite.from.tag && bye.cseq.number == 2)
        #expect(story(answer(bench, 200, to: bye)).isEmpty)
    }

    @Test func `an app that asks for it gets a push at once, and no request when it registers`() throws {
        let bench = pushed(afterEnd: .push)
        let over = bench.cancel()
        let push = try #require(over.pushes.first)
        guard case .notification(let notification) = push.message else {
            Issue.record("no word of the end")
            return
        }
        #expect(push.token.prid.string == "tok1" && notification.isSilent && !notification.isInBadge)
        #expect(notification.endedCall?.outcome == .missed)
        #expect(notification.endedCall?.call.callID.string == "call1")
        #expect(notification.endedCall?.call.callerURI.string == "sip:103@example.net")
        #expect(story(bench.register(cseq: 2)) == ["200 register > phone", "push missed 103 tok1"])
        // A phone that has registered before the end of the call gets a CANCEL, and no end push.
        let awake = pushed(afterEnd: .push)
        awake.register(cseq: 2)
        #expect(awake.cancel().pushes.isEmpty)
    }

    // MARK: Push tokens to which no list of missed calls is sent (A28)

    private static func apns(_ settings: inout ProxySettings) {
        var push = PushSettings()
        push.apns.enabled = true
        settings.dispatch.directory = PushDirectory(push)
        settings.configuredProviders = [.apns]
        settings.bucket.maximumAge = .seconds(5000)
    }

    private func apple(_ bench: EngineBench, _ service: String, cseq: Int) -> [ProxyAction] {
        let text = SIPText.register(
            user: "bob", from: EngineBench.phone, callID: "r1", cseq: cseq, branch: "a\(cseq)",
            contact: "<sip:bob@192.0.2.5;pn-provider=apns;pn-param=TEAM.com.example.phone.\(service);pn-prid=\(one)>")
        let first = bench.receive(text)
        return first + bench.commitAll(in: first)
    }

    @Test func `a token that carries no list is reported once, and does not count as a push`() throws {
        let bench = EngineBench(Self.apns)
        _ = apple(bench, "voip", cseq: 1)
        let push = try #require(bench.invite().pushes.first)
        bench.finish(push.id)
        bench.take()
        bench.cancel()
        // The phone gets the INVITE and its CANCEL, but no list of missed calls, because a VoIP token cannot carry
        // lists.
        let returned = apple(bench, "voip", cseq: 2)
        #expect(returned.pushes.isEmpty && sentRequest(returned)?.method == .invite)
        let record = try #require(returned.records.first { $0.kind == .missedCalls })
        #expect(record.omission == .notCarried && record.calls == 1 && record.delivery == .none)
        #expect(bench.engine.counters[.missedCallNotCarried] == 1 && bench.engine.counters[.missedCallReported] == 0)
        let again = apple(bench, "voip", cseq: 3)
        #expect(again.pushes.isEmpty && !again.records.contains { $0.kind == .missedCalls })
        #expect(bench.engine.counters[.missedCallNotCarried] == 1)
        // The phone gets the list of missed calls when it registers with a token that can carry such lists.
        #expect(apple(bench, "remote", cseq: 4).pushes.count == 1)
    }

    @Test func `a call that cannot be reported is not kept forever`() throws {
        let bench = EngineBench(Self.apns)
        bench.engine.restored(now: bench.now)
        _ = apple(bench, "voip", cseq: 1)
        bench.invite()
        bench.cancel()
        _ = apple(bench, "voip", cseq: 2)
        #expect(bench.engine.buckets.entries(of: EngineBench.bob).count == 1)
        _ = bench.pass(.seconds(4000))
        #expect(bench.engine.buckets.entries(of: EngineBench.bob).count == 1)
        // The engine deletes old missed calls once an hour, even if nobody registers or calls.
        _ = bench.pass(.seconds(4000))
        #expect(bench.engine.buckets.entries(of: EngineBench.bob).isEmpty)
    }

    @Test(arguments: [
        ("apns", "TEAM.com.example.phone.voip", one, false), ("apns", "TEAM.com.example.phone.remote", one, true),
        ("apns", "TEAM.com.example.phone.voip&remote", "\(one):voip&\(other):remote", true),
        ("fcm", "p", "token", true), ("acrobits", "app", "CALLS:calls", false),
        ("acrobits", "app.voip&app", "CALLS:calls&OTHER:other", true), ("http", "nobody", "x", true),
    ])
    func `which tokens carry lists`(provider: String, param: String, prid: String, expected: Bool) throws {
        var push = PushSettings()
        push.apns.enabled = true
        push.fcm.enabled = true
        push.acrobits.enabled = true
        let token = PushToken(
            provider: try #require(PushProvider(rawValue: provider)), param: ByteString(param), prid: ByteString(prid))
        #expect(PushDirectory(push).carriesLists(token) == expected)
    }

    // MARK: The call ends before the provider has answered

    /// A bench with a call whose push was sent, but not answered by the provider yet.
    private func underWay(
        afterEnd: AfterEnd = .push, _ extra: [String] = []
    ) throws -> (bench: EngineBench, push: PushRequest) {
        let bench = EngineBench.registered(ProxyCoreTests.afterEnd(afterEnd))
        let push = try #require(bench.invite(extra: extra).pushes.first)
        bench.take()
        return (bench, push)
    }

    @Test func `the phone gets the end when the provider has accepted the push`() throws {
        let (bench, push) = try underWay()
        #expect(story(bench.cancel()) == ["200 cancel > pbx", "487 invite > pbx"])
        bench.finish(push.id)
        let end = try #require(bench.take().pushes.first)
        guard case .notification(let notification) = end.message else {
            Issue.record("no word of the end")
            return
        }
        #expect(notification.endedCall?.outcome == .missed && end.token == push.token)
        #expect(notification.endedCall?.call.callID.string == "call1")
        // The badge of the next call counts the push that the provider accepted only after the end of its call.
        let next = try #require(bench.invite(callID: "call2", branch: "i2").pushes.first)
        #expect(push.badge == 1 && next.badge == 2)
    }

    @Test(arguments: [
        PushOutcome.retry(after: nil), .payloadRefused("no"), .credentialsRefused("no"), .tokenDead(since: nil),
    ])
    func `a phone whose push was not accepted gets no end`(outcome: PushOutcome) throws {
        let (bench, push) = try underWay()
        bench.cancel()
        bench.finish(push.id, outcome)
        #expect(bench.take().pushes.isEmpty)
        let isDead = outcome == .tokenDead(since: nil)
        #expect(bench.invite(callID: "call2", branch: "i2").pushes.map(\.badge) == (isDead ? [] : [1]))
    }

    @Test func `a push that was withdrawn has no end`() throws {
        let bench = EngineBench.registered {
            ProxyCoreTests.afterEnd(.push)(&$0)
            EngineBench.wantsCredential(&$0)
        }
        let order = try #require(bench.invite().credentials.first)
        bench.cancel()
        #expect(bench.makeCredential(order).pushes.isEmpty)
        #expect(bench.invite(callID: "call2", branch: "i2").pushes.map(\.badge) == [1])
    }

    @Test func `a phone that comes before the provider's answer gets a CANCEL and no push for the end`() throws {
        let (bench, push) = try underWay()
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        bench.finish(push.id)
        #expect(story(answer(bench, 180, to: invite)) == ["180 invite > pbx"])
        #expect(bench.cancel().pushes.isEmpty)
        #expect(bench.take().pushes.isEmpty)
    }

    @Test func `a phone that has registered since keeps its contact although the provider calls its token dead`() throws
    {
        let (bench, push) = try underWay()
        _ = bench.pass(.seconds(1))
        bench.register(cseq: 2)
        bench.finish(push.id, .tokenDead(since: nil))
        bench.cancel()
        #expect(bench.invite(callID: "call2", branch: "i2").pushes.count == 1)
    }

    @Test func `it gets the news that another phone has answered`() throws {
        let (bench, pushes) = try takenByAnother(.push) { _, _ in }
        let slow = try #require(pushes.first { $0.token.prid.string == "tok1" })
        bench.finish(slow.id)
        guard case .notification(let notification)? = bench.take().pushes.first?.message else {
            Issue.record("no word of the end")
            return
        }
        #expect(notification.endedCall?.outcome == .answeredElsewhere)
    }

    @Test func `calls that are not over have the room first`() throws {
        let bench = pushed {
            $0.limits.heldBytes = 1_100
            $0.limits.callerShare = 100
        }
        bench.cancel()
        bench.register(user: "carol", token: "tok9", callID: "r9", from: Endpoint(IPAddress(v4: 0xc000_0209), 9))
        #expect(
            story(
                bench.invite(
                    to: "carol", callID: "call2", branch: "i2", extra: ["X: \(String(repeating: "x", count: 600))"])
            ).first == "100 invite > pbx")
        #expect(story(bench.register(cseq: 2)) == ["200 register > phone", "push missed 103 tok1"])
    }

    @Test(arguments: [
        ("fcm", PayloadProfile.ecss10, AfterLateInvite.list, AfterLateInvite.list), ("fcm", .tenDarts, .list, .none),
        ("fcm", .linphone, .none, .none), ("apns", .ecss10, .list, .list), ("apns", .linphone, .none, .none),
        ("acrobits", .ecss10, .none, .none), ("webpush", .linphone, .none, .none),
        ("webpush", .ecss10, .list, .list),
    ])
    func `whether a list contains the call of a late INVITE`(
        provider: String, payload: PayloadProfile, standard: AfterLateInvite, wishedNone: AfterLateInvite
    ) throws {
        var push = PushSettings()
        push.apns.enabled = true
        push.apns.payload = payload
        push.fcm.enabled = true
        push.fcm.payload = payload
        push.webPush.enabled = true
        push.webPush.payload = payload
        push.acrobits.enabled = true
        let app = try #require(PushDirectory(push).apps.first { $0.provider.rawValue == provider })
        #expect(app.rules.afterLateInvite(nil) == standard)
        #expect(
            app.rules.afterLateInvite(.list) == .list && app.rules.afterLateInvite(AfterLateInvite.none) == wishedNone)
    }

    @Test(arguments: [
        ("apns", "TEAM.com.example.phone.voip", PayloadProfile.ecss10, AfterEnd.inviteCancel),
        ("apns", "TEAM.com.example.phone.remote", .ecss10, .none),
        ("apns", "TEAM.com.example.phone.remote", .linphone, .inviteCancel),
        ("fcm", "p", .ecss10, .none), ("fcm", "p", .tenDarts, .none), ("fcm", "p", .linphone, .inviteCancel),
        ("acrobits", "app", .ecss10, .push),
    ])
    func `the default of apps without this setting`(
        provider: String, param: String, payload: PayloadProfile, expected: AfterEnd
    ) throws {
        var push = PushSettings()
        push.apns.enabled = true
        push.apns.payload = payload
        push.fcm.enabled = true
        push.fcm.payload = payload
        push.acrobits.enabled = true
        let token = PushToken(
            provider: try #require(PushProvider(rawValue: provider)), param: ByteString(param),
            prid: ByteString(String(repeating: "00ff", count: 16)))
        #expect(PushDirectory(push).afterEnd(of: token) == expected)
    }
}
