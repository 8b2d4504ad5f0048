import Bytes
import ProxyCore
import PushDelivery
import Registration
import Testing
import TestSupport
import Timekeeping

@Suite struct `Tokens that died or changed` {
    /// Bob's tablet beside his phone, with the token `tok2`.
    private func registerTablet(_ bench: EngineBench, cseq: Int = 1) -> [ProxyAction] {
        _ = bench.pass(.seconds(1))
        return bench.register(token: "tok2", callID: "r2", cseq: cseq)
    }

    @Test func `one of two devices dies, the other is still waited for`() throws {
        let bench = EngineBench()
        bench.register()
        _ = registerTablet(bench)
        let pushes = bench.invite().pushIDs
        #expect(pushes.count == 2)
        // The one that registered last is pushed first.
        bench.engine.pushFinished(pushes[0], outcome: .tokenDead(since: nil), now: bench.now)
        #expect(story(bench.take()).isEmpty)
        #expect(story(bench.register(cseq: 2)) == ["200 register > phone", "drop push", "invite > phone"])
    }

    @Test func `missed calls of a dead device go to the user's other device`() throws {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        _ = bench.pass(.seconds(31))
        _ = registerTablet(bench)
        // The next call finds out that the phone is dead.
        let pushes = bench.invite(callID: "call2", branch: "i2").pushIDs
        bench.engine.pushFinished(pushes[1], outcome: .tokenDead(since: nil), now: bench.now)
        _ = bench.pass(.seconds(31))
        #expect(story(registerTablet(bench, cseq: 2)) == ["200 register > phone", "push missed 103,103 tok2"])
    }

    @Test func `a device that knows of a call does not inherit it`() throws {
        let bench = EngineBench()
        bench.register()
        _ = registerTablet(bench)
        bench.invite()
        _ = bench.pass(.seconds(31))
        let list = try #require(registerTablet(bench, cseq: 2).pushIDs.first)
        bench.engine.pushFinished(list, outcome: .accepted(nil), now: bench.now)
        let pushes = bench.invite(callID: "call2", branch: "i2").pushIDs
        bench.engine.pushFinished(pushes[1], outcome: .tokenDead(since: nil), now: bench.now)
        _ = bench.pass(.seconds(31))
        #expect(story(registerTablet(bench, cseq: 3)) == ["200 register > phone", "push missed 103 tok2"])
    }

    @Test func `missed calls go with the user's last device`() throws {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        _ = bench.pass(.seconds(31))
        let push = try #require(bench.invite(callID: "call2", branch: "i2").pushIDs.first)
        bench.engine.pushFinished(push, outcome: .tokenDead(since: nil), now: bench.now)
        let aor = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))
        #expect(bench.engine.buckets.entries(of: aor).isEmpty)
    }

    @Test func `a token that its provider replaced is used from then on, and kept`() throws {
        let bench = EngineBench()
        bench.register()
        let push = try #require(bench.invite().pushIDs.first)
        bench.engine.pushFinished(push, outcome: .acceptedWithNewToken(ByteString("new;tok\r\n")), now: bench.now)
        let actions = bench.take()
        let contacts = actions.compactMap { action -> ByteString? in
            guard case .record(let changes) = action, case .binding(.upsert(let row))? = changes.first else {
                return nil
            }
            return row.contact
        }
        let contact = try #require(contacts.first)
        #expect(
            contact.string
                == "<sip:bob@\(EngineBench.phone);pn-provider=fcm;pn-param=p;pn-prid=new%3Btok%0D%0A>")
        // The call goes on waiting.
        #expect(story(actions).isEmpty)
        let next = bench.invite(callID: "call2", branch: "i2")
        #expect(story(next).contains("push invite new;tok\r\n"))
    }
}

@Suite struct `Lists of missed calls that are not taken` {
    private func missOne(_ bench: EngineBench) -> PushID? {
        bench.register()
        bench.invite()
        _ = bench.pass(.seconds(31))
        return bench.register(cseq: 2).pushIDs.first
    }

    @Test func `are sent again, later and later, until they are taken`() throws {
        let bench = EngineBench()
        var push = try #require(missOne(bench))
        for pause in [60, 300, 900, 3600, 3600] as [Int64] {
            bench.engine.pushFinished(push, outcome: .retry(after: nil), now: bench.now)
            #expect(bench.pass(.milliseconds(pause * 740)).pushIDs.isEmpty)
            let actions = bench.pass(.milliseconds(pause * 520))
            #expect(story(actions).filter { $0.hasPrefix("push") } == ["push missed 103 tok1"])
            push = try #require(actions.pushIDs.first)
        }
        bench.engine.pushFinished(push, outcome: .accepted(nil), now: bench.now)
        #expect(bench.pass(.seconds(20_000)).pushIDs.isEmpty)
    }

    @Test func `are not sent again on a clock of their own when that cannot help`() throws {
        let bench = EngineBench()
        let push = try #require(missOne(bench))
        bench.engine.pushFinished(push, outcome: .noSuitableToken, now: bench.now)
        #expect(bench.pass(.seconds(20_000)).pushIDs.isEmpty)
        #expect(story(bench.register(cseq: 3)).contains("push missed 103 tok1"))
    }

    @Test func `end when the calls are too old`() throws {
        let bench = EngineBench { $0.bucket.maximumAge = .seconds(120) }
        let push = try #require(missOne(bench))
        bench.engine.pushFinished(push, outcome: .retry(after: nil), now: bench.now)
        let again = try #require(bench.pass(.seconds(80)).pushIDs.first)
        bench.engine.pushFinished(again, outcome: .retry(after: nil), now: bench.now)
        #expect(bench.pass(.seconds(20_000)).pushIDs.isEmpty)
    }

    @Test func `are sent after a restart if the device has been here since`() throws {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        _ = bench.pass(.seconds(31))
        let aor = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))
        func restarted(_ date: (UnixTime) -> UnixTime) throws -> ProxyEngine {
            let entries = bench.engine.buckets.entries(of: aor).map { entry in
                StoredBucketEntry(
                    aor: aor,
                    entry: BucketEntry(
                        callRef: entry.callRef, caller: entry.caller, date: date(entry.date), devices: entry.devices,
                        isOver: true))
            }
            let engine = EngineFixture.engine(StoredState(bucketEntries: entries), seed: 2)
            let device = try #require(bench.engine.targets(of: aor, now: bench.now).first)
            let stored = bench.engine.bindings.stored(device.id, now: bench.now)
            let row = try #require(stored)
            #expect(engine.restore(row, now: bench.now))
            engine.restored(now: bench.now)
            return engine
        }
        // It has not registered since the call.
        #expect(try restarted { $0 + .seconds(1) }.nextDeadline == nil)
        let engine = try restarted { $0 + .seconds(-100) }
        let due = try #require(engine.nextDeadline)
        #expect(due - bench.now.instant <= .seconds(30))
        engine.deadlineReached(now: Moment(instant: due, date: bench.now.date + (due - bench.now.instant)))
        #expect(story(engine.takeActions()) == ["push missed 103 tok1"])
    }
}

@Suite struct `Limits of pushes` {
    @Test func `a device gets no more than its share a minute, and calls still wait for it`() {
        let bench = EngineBench { $0.call.pushesPerDevice = 3 }
        bench.register()
        for call in 1...3 { #expect(bench.invite(callID: "c\(call)", branch: "c\(call)").pushIDs.count == 1) }
        let surplus = bench.invite(callID: "c4", branch: "c4")
        #expect(story(surplus) == ["100 invite > pbx"])
        _ = bench.pass(.seconds(20))
        #expect(bench.invite(callID: "c5", branch: "c5").pushIDs.count == 1)
        // All five are delivered.
        #expect(story(bench.register(cseq: 2)).count { $0 == "invite > phone" } == 5)
    }

    @Test func `a caller who is not trusted wakes no more than its share`() {
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
