import Addressing
import Bytes
@testable import LocationService
import PushDelivery
import Registration
import Routing
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@Suite("The registrar, without an engine")
struct RegistrarTests {
    private let scene = MachineScene()
    private let bob = MachineScene.bob

    private func work(_ token: String, _ callID: String, cseq: Int = 1) throws -> RegistrarWork {
        .register(try MachineScene.register(token: token, callID: callID, cseq: cseq))
    }

    @Test func `a contact counts when its plan is committed and completed, and not before`() throws {
        var registrar = try scene.registrar()
        guard case .committing(let plan, let ticket) = registrar.begin(try work("t1", "r1"), for: bob, now: scene.now)
        else {
            Issue.record("no commit")
            return
        }
        #expect(registrar.bindings.count == 0 && plan.persist.count == 1)
        let end = registrar.committed(ticket, succeeded: true)
        let done = try #require(end)
        #expect(done.aor == bob && done.queue.waiting.isEmpty)
        registrar.complete(plan)
        #expect(registrar.bindings.count == 1)
        let again = registrar.committed(ticket, succeeded: true)
        #expect(again == nil)
    }

    @Test func `a scan visits every contact once in its steps, and starts when the one before has paused`() throws {
        var registrar = try scene.registrar("t1", "t2", "t3")
        let starts = [registrar.scanStarts(), registrar.scanStarts()]
        #expect(starts == [true, false])
        var seen: [DeviceID] = []
        for _ in 1...3 { seen += registrar.scanned(steps: 3, lead: .seconds(100_000), now: scene.now.instant) }
        #expect(Set(seen).count == 3)
        registrar.scanPaused()
        let again = registrar.scanStarts()
        #expect(again)
    }

    @Test func `a provider that is off ends the contacts that it alone could wake, once they sleep`() throws {
        var registrar = try scene.registrar("t1")
        _ = registrar.switchedOff(.fcm, now: scene.now.instant)
        #expect(!registrar.enabledProviders.contains(.fcm))
        let off = registrar.bindings.forkTargets(for: bob, now: scene.now.instant).first
        #expect(off?.canBeWoken == false)
        registrar.switchedOn(.fcm)
        let on = registrar.bindings.forkTargets(for: bob, now: scene.now.instant).first
        #expect(registrar.enabledProviders.contains(.fcm) && on?.canBeWoken == true)
    }

    @Test func `the work on one AOR waits for the commit before it, in its order`() throws {
        var registrar = try scene.registrar()
        guard case .committing(_, let ticket) = registrar.begin(try work("t1", "r1"), for: bob, now: scene.now) else {
            Issue.record("no commit")
            return
        }
        for number in 2...3 {
            guard case .queued = registrar.begin(try work("t\(number)", "r\(number)"), for: bob, now: scene.now) else {
                Issue.record("\(number) does not wait")
                return
            }
        }
        let alice = AddressOfRecord(user: ByteString("alice"), host: bob.host)
        guard case .committing = registrar.begin(try work("ta", "ra"), for: alice, now: scene.now) else {
            Issue.record("another AOR waits")
            return
        }
        let end = registrar.committed(ticket, succeeded: true)
        let order = try #require(end).queue.waiting.map { work in
            if case .register(let incoming) = work { incoming.request.callID.string } else { "" }
        }
        #expect(order == ["r2", "r3"])
    }

    @Test func `a change that the disk did not accept has no effect`() throws {
        var registrar = try scene.registrar("t1")
        guard case .committing(_, let ticket) = registrar.begin(try work("t2", "r9"), for: bob, now: scene.now) else {
            Issue.record("no commit")
            return
        }
        let failed = registrar.committed(ticket, succeeded: false)
        #expect(failed != nil)
        #expect(registrar.bindings.count == 1)
        guard case .committing = registrar.begin(try work("t2", "r9", cseq: 2), for: bob, now: scene.now) else {
            Issue.record("the next try has no commit")
            return
        }
    }

    @Test func `only so much waits for one AOR`() throws {
        var registrar = try scene.registrar()
        var busy = 0
        for number in 1...40 {
            if case .busy = registrar.begin(try work("t\(number)", "r\(number)"), for: bob, now: scene.now) {
                busy += 1
            }
        }
        #expect(busy == 40 - 1 - RegistrarSettings().maxContacts - 8)
    }

    @Test func `refreshes are written late, each device once`() throws {
        var registrar = try scene.registrar("t1", "t2")
        let devices = registrar.bindings.forkTargets(for: bob, now: scene.now.instant).map(\.id)
        var areFirst: [Bool] = []
        for device in [devices[0], devices[0], devices[1]] {
            areFirst.append(registrar.noteRefreshed(device, saying: ByteString("Phone/1")))
        }
        #expect(areFirst == [true, false, false])
        let first = registrar.refreshedRows(limit: 1, now: scene.now)
        #expect(first.rows.count == 1 && first.hasMore && first.rows[0].userAgent == ByteString("Phone/1"))
        let second = registrar.refreshedRows(limit: 5, now: scene.now)
        #expect(second.rows.count == 1 && !second.hasMore)
        let isFirst = registrar.noteRefreshed(devices[1], saying: .empty)
        #expect(isFirst)
    }
}
