@testable import Routing
import TestSupport
import Addressing
import Testing
import Timekeeping

@Suite("Signs of life of flows")
struct FlowLifeTests {
    private let phone = MachineScene.phone
    private let pbx = MachineScene.pbx
    private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 0) + .seconds(seconds) }

    @Test func `a sign of life counts for its time`() {
        var life = FlowActivity(span: .seconds(10))
        #expect(!life.wasAlive(phone, now: at(0)))
        life.noted(on: phone, now: at(0))
        #expect(life.wasAlive(phone, now: at(9)) && !life.wasAlive(pbx, now: at(9)))
        #expect(!life.wasAlive(phone, now: at(10)))
    }

    @Test func `the time is the same when the tables are swapped in between`() {
        var life = FlowActivity(span: .seconds(10))
        life.noted(on: pbx, now: at(0))
        life.noted(on: phone, now: at(9))
        life.noted(on: pbx, now: at(11))
        #expect(life.wasAlive(phone, now: at(18)) && !life.wasAlive(phone, now: at(19)))
        // After a long silence, earlier signs of life no longer count.
        life.noted(on: pbx, now: at(100))
        #expect(!life.wasAlive(phone, now: at(100)) && life.wasAlive(pbx, now: at(100)))
    }

    @Test func `a flow whose connection has ended is forgotten, in both tables`() {
        var life = FlowActivity(span: .seconds(10))
        life.noted(on: phone, now: at(5))
        life.noted(on: pbx, now: at(15))
        life.noted(on: phone, now: at(16))
        life.forgot(phone)
        #expect(!life.wasAlive(phone, now: at(16)) && life.wasAlive(pbx, now: at(16)))
    }
}
