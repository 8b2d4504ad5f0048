import Addressing
import Bytes
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

@Suite("Providers that an operator pauses or switches off")
struct PausedProviderTests {
    private func pause(_ bench: EngineBench, _ state: ProviderState = .paused) -> [ProxyAction] {
        bench.engine.providerSwitched(.fcm, to: state, now: bench.now)
        return bench.take()
    }

    @Test func `the call waits for a phone that is not pushed, and goes to it when it comes`() throws {
        let bench = EngineBench.registered()
        #expect(pause(bench).isEmpty && bench.engine.state(of: .fcm) == .paused)
        #expect(bench.engine.trouble == "push provider fcm is paused")
        #expect(bench.engine.bindings.pushCount == 1)
        #expect(story(bench.invite()) == ["100 invite > pbx"])
        let record = try #require(bench.engine.timeline.underWay { _ in true }.first)
        #expect(record.omission == .providerPaused && record.app == "fcm" && record.delivery == .none)
        _ = bench.pass(.seconds(20))
        #expect(story(bench.register(cseq: 2)).contains("invite > phone"))
    }

    @Test func `a call that is waiting when the provider is paused goes on waiting`() throws {
        let bench = EngineBench { EngineBench.wantsCredential(&$0) }
        bench.register()
        let order = try #require(bench.invite().credentials.first)
        #expect(story(pause(bench)).isEmpty)
        #expect(story(bench.makeCredential(order)).isEmpty)
        #expect(bench.engine.heldCalls.count == 1)
        #expect(story(bench.register(cseq: 2)).contains("invite > phone"))
    }

    @Test func `nobody comes: 480 at the end of the wait, and a missed call that is told after the pause`() {
        let bench = EngineBench.registered()
        _ = pause(bench)
        bench.invite()
        #expect(story(bench.pass(.seconds(31))).first == "480 invite > pbx")
        #expect(!story(bench.register(cseq: 2)).contains { $0.hasPrefix("push") })
        #expect(!story(bench.pass(.seconds(7200))).contains { $0.hasPrefix("push") })
        #expect(bench.engine.buckets.entries(of: EngineBench.bob).count == 1)
        _ = pause(bench, .on)
        #expect(bench.engine.trouble == nil)
        #expect(story(bench.pass(.seconds(31))).filter { $0.hasPrefix("push missed") }.count == 1)
    }

    @Test func `notifications say that their provider is paused`() throws {
        let bench = EngineBench.registered()
        _ = pause(bench)
        var notification = PushNotification(expiresAt: bench.now.date + .seconds(60))
        notification.text = ByteString("hi")
        let receipt = try bench.engine.notificationOrdered(
            notification, for: [.user(EngineBench.bob)], now: bench.now)
        #expect(receipt.sent == 0 && receipt.skipped == [.providerPaused])
        #expect(bench.take().pushes.isEmpty)
    }

    @Test func `a pause survives the end of the process, and off comes before it`() {
        let engine = EngineFixture.engine(StoredState(pausedProviders: [.fcm]), seed: 1)
        #expect(engine.state(of: .fcm) == .paused && engine.enabledProviders == [.fcm])
        engine.providerSwitched(
            .fcm, to: .off, now: Moment(instant: Instant(nanoseconds: 0), date: UnixTime(seconds: 1_790_000_000)))
        #expect(engine.state(of: .fcm) == .off && engine.trouble == nil)
    }

    @Test func `each contact that ends with its provider leaves a record, and the count is known before`() throws {
        let bench = EngineBench()
        for number in 1...3 {
            let place = Endpoint(EngineBench.phone.address, UInt16(41_000 + number))
            bench.register(
                user: "u\(number)", token: "t\(number)", callID: "r\(number)", from: place,
                expires: number == 3 ? 7200 : 3600)
        }
        _ = bench.pass(.seconds(4000))
        let effect = bench.engine.bindings.switchOff(of: .fcm, now: bench.now.instant)
        #expect(effect.ending == 2 && effect.ordinary == 1)
        #expect(bench.engine.bindings.count == 3)
        let records = pause(bench, .off).records
        #expect(records.map(\.kind) == [.contact, .contact] && records.allSatisfy { $0.end == .providerOff })
        #expect(records.map(\.user) == [ByteString("u1"), ByteString("u2")] && records.allSatisfy { $0.app == "fcm" })
        #expect(records.allSatisfy { $0.device != .nobody && $0.delivery == .none })
        #expect(bench.engine.bindings.count == 1)
        let after = bench.engine.bindings.switchOff(of: .fcm, now: bench.now.instant)
        #expect(after.ending == 0 && after.ordinary == 0)
    }

    @Test func `the switch has one line with what it ended`() {
        let sink = LineSink()
        let bench = EngineBench(log: sink.log)
        bench.register()
        _ = bench.pass(.seconds(4000))
        for state in [ProviderState.paused, .paused, .on, .off] { _ = pause(bench, state) }
        let lines = sink.take().filter { $0.contains("an operator changed the state of a push provider") }
        #expect(lines.count == 3)
        #expect(lines.last?.contains("outcome=off count=1") == true)
    }
}
