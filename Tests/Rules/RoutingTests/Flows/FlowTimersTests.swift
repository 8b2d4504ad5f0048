@testable import Routing
import TestSupport
import Addressing
import Testing
import Timekeeping

@Suite("Flows that must show life (RFC 5626 section 4.4)")
struct FlowTimersTests {
    private let flow = MachineScene.phone
    private let span: Duration = .seconds(100)
    private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 0) + .seconds(seconds) }
    private let first = DeviceID(rawValue: 1)
    private let second = DeviceID(rawValue: 2)

    private func fallen(_ timers: inout FlowTimers, at seconds: Int, without gone: DeviceID? = nil) -> [DeviceID]? {
        timers.fallenSilent(span: span, now: at(seconds)) { device, _ in device != gone }?.bindings
    }

    @Test func `a flow without a sign of life in its time is silent, once, with all its bindings`() {
        var timers = FlowTimers()
        #expect(timers.isEmpty && timers.nextDeadline == nil)
        timers.registered(first, on: flow, span: span, now: at(0))
        timers.registered(second, on: flow, span: span, now: at(0))
        timers.registered(second, on: flow, span: span, now: at(0))
        #expect(fallen(&timers, at: 99) == nil)
        #expect(fallen(&timers, at: 101) == [first, second])
        #expect(fallen(&timers, at: 300) == nil)
    }

    @Test func `a sign of life postpones it, and one after the silence names the bindings again`() {
        var timers = FlowTimers()
        timers.registered(first, on: flow, span: span, now: at(0))
        #expect(timers.heard(flow, span: span, now: at(60)) == [])
        #expect(fallen(&timers, at: 101) == nil)
        #expect(fallen(&timers, at: 161) == [first])
        #expect(timers.heard(flow, span: span, now: at(200)) == [first])
        #expect(fallen(&timers, at: 290) == nil)
        #expect(fallen(&timers, at: 301) == [first])
        timers.registered(first, on: flow, span: span, now: at(310))
        #expect(fallen(&timers, at: 411) == [first])
    }

    @Test func `removed bindings are not reported, and a flow without any is forgotten`() {
        var timers = FlowTimers()
        timers.registered(first, on: flow, span: span, now: at(0))
        timers.registered(second, on: flow, span: span, now: at(0))
        #expect(fallen(&timers, at: 101, without: first) == [second])
        _ = timers.heard(flow, span: span, now: at(102))
        #expect(fallen(&timers, at: 250, without: second) == nil)
        #expect(timers.isEmpty)
        #expect(timers.heard(flow, span: span, now: at(251)) == [])
    }
}
