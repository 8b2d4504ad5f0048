import Addressing
import Bytes
import Messaging
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Tests NOTIFYs without a subscription, which a PBX sends to the contact that the daemon has registered for a user.
@Suite("Notices of a PBX")
struct NoticeTests {
    private static let phone = EngineBench.phone

    /// Makes a bench in which bob is registered at the PBX, and bob's phone is awake or sleeps.
    private func bench(isAwake: Bool, _ change: (inout ProxySettings) -> Void = { _ in }) -> PBXBench {
        var pbx = PBXBench(change)
        pbx.react(to: pbx.bench.register())
        pbx.pass(.seconds(2))
        if !isAwake { pbx.pass(.seconds(100_000)) }
        return pbx
    }

    private func notify(
        _ pbx: PBXBench, _ number: Int, event: String = "message-summary", extra: [String] = [],
        from source: Endpoint = EngineBench.pbx
    ) -> [ProxyAction] {
        let actions = pbx.bench.receive(
            notice(pbx, number, event: event, extra: extra, from: source), from: source)
        return actions + pbx.bench.commitAll(in: actions)
    }

    private func notice(
        _ pbx: PBXBench, _ number: Int, event: String = "message-summary", extra: [String] = [],
        from source: Endpoint = EngineBench.pbx
    ) -> [UInt8] {
        let text = SIPText.invite(
            to: pbx.token(), domain: "10.0.0.1:5060", from: "asterisk", at: source, callID: "n\(number)",
            branch: "n\(number)", extra: ["Event: \(event)", "Subscription-State: terminated"] + extra)
        let notice = text.replacing("INVITE sip", with: "NOTIFY sip").replacing("1 INVITE", with: "1 NOTIFY")
        return notice.replacing("s=-", with: "s=\(number)")
    }

    private func notices(_ actions: [ProxyAction]) -> [String] { actions.texts.filter { $0.hasPrefix("NOTIFY") } }

    @Test func `a phone that is awake gets the NOTIFY at once`() throws {
        let pbx = bench(isAwake: true)
        let actions = notify(pbx, 1)
        #expect(notices(actions).count == 1)
        #expect(actions.pushes.isEmpty)
        let sent = try #require(actions.bytes.compactMap { readRequest($0) }.first { $0.method == .notify })
        let answered = pbx.bench.receive(SIPText.response(200, to: sent, tag: "x"))
        #expect(answered.texts.contains { $0.hasPrefix("SIP/2.0 200") })
    }

    @Test func `for a phone that sleeps the PBX gets 200, and the latest of each event waits without a push`() throws {
        let pbx = bench(isAwake: false)
        for number in 1...3 {
            let actions = notify(pbx, number)
            #expect(actions.texts.contains { $0.hasPrefix("SIP/2.0 200") }, "\(story(actions))")
            #expect(actions.pushes.isEmpty && notices(actions).isEmpty)
        }
        _ = notify(pbx, 4, event: "check-sync")
        #expect(pbx.engine.waitingMessages(of: EngineBench.bob).count == 2)
        let woken = pbx.bench.register(cseq: 9)
        let first = try #require(notices(woken).first)
        #expect(notices(woken).count == 1 && first.contains("s=3"))
        let sent = try #require(woken.bytes.compactMap { readRequest($0) }.first { $0.method == .notify })
        let next = pbx.bench.receive(SIPText.response(200, to: sent, tag: "x"))
        #expect(notices(next).first?.contains("s=4") == true)
    }

    @Test func `a stored NOTIFY leaves the store only when the next one is stored`() throws {
        let pbx = bench(isAwake: false) { $0.messages.maximumCount = 1 }
        _ = notify(pbx, 1)
        let old = try #require(pbx.engine.waitingMessages(of: EngineBench.bob).first?.id)
        func deletes(_ actions: [ProxyAction]) -> Bool {
            actions.contains { action in
                guard case .record(let changes) = action else { return false }
                return changes.contains { if case .message(.delete(old)) = $0 { true } else { false } }
            }
        }
        let received = pbx.bench.receive(notice(pbx, 2), from: EngineBench.pbx)
        let commit = received.contains { if case .commit = $0 { true } else { false } }
        #expect(commit && !deletes(received))
        // The store fails, so the old NOTIFY stays in the store, and the PBX repeats the new NOTIFY.
        let failed = pbx.bench.commitAll(in: received, succeeded: false)
        #expect(!deletes(failed) && failed.texts.contains { $0.hasPrefix("SIP/2.0 503") })
        #expect(pbx.engine.waitingMessages(of: EngineBench.bob).map(\.id) == [old])
        let again = pbx.bench.receive(notice(pbx, 3), from: EngineBench.pbx)
        #expect(!deletes(again))
        #expect(deletes(pbx.bench.commitAll(in: again)))
        #expect(pbx.engine.waitingMessages(of: EngineBench.bob).count == 1)
    }

    @Test func `an urgent NOTIFY wakes the phone, and so does every one where a setting says so`() {
        let pbx = bench(isAwake: false)
        #expect(notify(pbx, 1, extra: ["Priority: urgent"]).pushes.count == 1)
        let other = bench(isAwake: false) { $0.messages.methods = ["NOTIFY"] }
        #expect(notify(other, 1).pushes.count == 1)
    }

    @Test func `nobody but the PBX leaves a NOTIFY`() {
        let pbx = bench(isAwake: false)
        let stranger = Endpoint(IPAddress(v4: 0xc633_6407), 5060)
        let actions = notify(pbx, 1, from: stranger)
        #expect(!actions.texts.contains { $0.hasPrefix("SIP/2.0 2") })
        #expect(pbx.engine.waitingMessages(of: EngineBench.bob).isEmpty)
    }
}
