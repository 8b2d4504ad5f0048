import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import TestSupport
import Testing
import Timekeeping

@Suite struct `Tokens that died or changed` {
    @Test(arguments: [
        PhoneStory(
            "one of two devices dies, the other is still waited for", .register(), .pass(1), .register(token: "tok2"),
            .callOfBoth, .push(.tokenDead(since: nil), number: 0), .refresh("invite > 0")),
        PhoneStory(
            "missed calls of a dead device go to the user's other device", .register(), .wakingCall, .pass(31).unseen,
            .register(token: "tok2"),
            // The push of the next call shows that the phone's token is dead.
            .callOfBoth, .push(.tokenDead(since: nil)), .pass(31).unseen,
            .refresh(token: "tok2", "push missed 103,103 tok2")),
        PhoneStory(
            "a device that knows of a call does not inherit it", .register(), .pass(1), .register(token: "tok2"),
            .callOfBoth, .pass(31).unseen, .refresh(token: "tok2", "push missed 103 tok2"), .push(.accepted(nil)),
            .callOfBoth, .push(.tokenDead(since: nil)), .pass(31).unseen,
            .refresh(token: "tok2", "push missed 103 tok2")),
        PhoneStory(
            "missed calls go with the user's last device", .register(), .wakingCall, .pass(31).unseen, .missed(1),
            .wakingCall, .push(.tokenDead(since: nil)).unseen, .missed(0)),
    ])
    func `a dead push token ends the wait for its device`(story: PhoneStory) { #expect(story.faults == []) }

    @Test func `a token that its provider replaced is used from then on, and kept`() throws {
        let bench = EngineBench.registered()
        let push = try #require(bench.invite().pushIDs.first)
        bench.finish(push, .acceptedWithNewToken(ByteString("new;tok\r\n")))
        let actions = bench.take()
        let contacts = actions.compactMap { action -> ByteString? in
            guard case .record(let changes) = action, case .binding(.upsert(let row))? = changes.first else {
                return nil
            }
            return row.contact
        }
        let contact = try #require(contacts.first)
        #expect(contact.string == "<sip:bob@\(EngineBench.phone);pn-provider=fcm;pn-param=p;pn-prid=new%3Btok%0D%0A>")
        #expect(story(actions).isEmpty)
        #expect(bench.targets.first?.pushToken?.prid.string == "new;tok\r\n")
    }
}

extension PhoneStory.Step {
    /// A call to bob's phone and bob's tablet. The push to the device that registered last is sent first.
    fileprivate static var callOfBoth: Self { .call("100 invite > pbx", "push invite tok2", "push invite tok1") }

    /// A call that nobody answers, and a REGISTER of the called phone after the call.
    fileprivate static var missedCall: Self {
        Self("a missed call", []) { phone in
            _ = phone.register(at: 0)
            _ = phone.call()
            _ = phone.pass(.seconds(31))
            return phone.register(isRefresh: true)
        }.including("push missed 103 tok1")
    }
}

@Suite struct `Lists of missed calls that are not taken` {
    private func missOne(_ bench: EngineBench) -> PushID? {
        bench.register()
        bench.invite()
        _ = bench.pass(.seconds(31))
        return bench.register(cseq: 2).pushIDs.first
    }

    @Test func `are sent again, later and later, until they are accepted`() throws {
        let bench = EngineBench()
        var push = try #require(missOne(bench))
        for pause in [60, 300, 900, 3600, 3600] as [Int64] {
            bench.finish(push, .retry(after: nil))
            #expect(bench.pass(.milliseconds(pause * 740)).pushIDs.isEmpty)
            let actions = bench.pass(.milliseconds(pause * 520))
            #expect(story(actions).filter { $0.hasPrefix("push") } == ["push missed 103 tok1"])
            push = try #require(actions.pushIDs.first)
        }
        bench.finish(push)
        #expect(bench.pass(.seconds(20_000)).pushIDs.isEmpty)
    }

    @Test(arguments: [
        PhoneStory(
            "are not sent again on a clock of their own when that cannot help", .missedCall, .push(.noSuitableToken),
            .pass(20_000).without("push"), .refresh().including("push missed 103 tok1")),
        PhoneStory(
            "end when the calls are too old", where: { $0.bucket.maximumAge = .seconds(120) }, .missedCall,
            .push(.retry(after: nil)), .pass(80).including("push missed 103 tok1"), .push(.retry(after: nil)),
            .pass(20_000).without("push")),
    ])
    func `are not sent forever`(story: PhoneStory) { #expect(story.faults == []) }

    @Test func `are sent after a restart if the device has been here since`() throws {
        let bench = EngineBench.registered()
        bench.invite()
        _ = bench.pass(.seconds(31))
        func restarted(_ date: (UnixTime) -> UnixTime) throws -> ProxyEngine {
            let entries = bench.engine.buckets.entries(of: EngineBench.bob).map { entry in
                StoredBucketEntry(
                    aor: EngineBench.bob,
                    entry: BucketEntry(
                        callRef: entry.callRef, caller: entry.caller, date: date(entry.date),
                        broughtBy: entry.broughtBy, devices: entry.devices,
                        isOver: true))
            }
            let engine = EngineFixture.engine(StoredState(bucketEntries: entries), seed: 2)
            let device = try #require(bench.targets.first)
            let stored = bench.engine.bindings.stored(device.id, now: bench.now)
            let row = try #require(stored)
            #expect(engine.restore(row, now: bench.now))
            engine.restored(now: bench.now)
            return engine
        }
        // The engine's timer fires once an hour to drop old missed calls, because the device has not registered since
        // the call.
        #expect(try restarted { $0 + .seconds(1) }.nextDeadline == bench.now.instant + .seconds(3600))
        let engine = try restarted { $0 + .seconds(-100) }
        let due = try #require(engine.nextDeadline)
        #expect(due - bench.now.instant <= .seconds(30))
        engine.deadlineReached(now: Moment(instant: due, date: bench.now.date + (due - bench.now.instant)))
        #expect(story(engine.takeActions()) == ["push missed 103 tok1"])
    }
}

@Suite struct `Limits of pushes` {
    private static func threeFromOne(_ settings: inout ProxySettings) {
        settings.call.pushesPerDevice = 3
        settings.limits.callerShare = 100
    }

    @Test func `a device gets at most its share in a minute, and calls still wait for it`() {
        let story = PhoneStory(
            "three a minute", where: Self.threeFromOne, .register(), .wakingCall, .wakingCall,
            .wakingCall, .call("100 invite > pbx"), .pass(20).unseen, .wakingCall,
            // The daemon delivers all five calls to the phone.
            .refresh().times(5, "invite > 0"))
        #expect(story.faults == [])
    }

    @Test func `a caller that is not trusted wakes at most its share`() {
        let bench = EngineBench {
            $0.call.pushesPerCaller = 2
            $0.trusted = []
        }
        for user in 1...3 { bench.register(user: "u\(user)", token: "t\(user)", callID: "r\(user)") }
        #expect(bench.invite(to: "u1", callID: "c1", branch: "c1").pushIDs.count == 1)
        #expect(bench.invite(to: "u2", callID: "c2", branch: "c2").pushIDs.count == 1)
        #expect(bench.invite(to: "u3", callID: "c3", branch: "c3").pushIDs.isEmpty)
    }

    @Test func `the PBX answers for its callers`() {
        let bench = EngineBench { $0.call.pushesPerCaller = 1 }
        for user in 1...3 { bench.register(user: "u\(user)", token: "t\(user)", callID: "r\(user)") }
        for user in 1...3 {
            #expect(bench.invite(to: "u\(user)", callID: "c\(user)", branch: "c\(user)").pushIDs.count == 1)
        }
    }
}
