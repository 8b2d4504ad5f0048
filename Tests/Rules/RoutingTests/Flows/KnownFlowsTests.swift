import LocationService
import Addressing
import ProxyPolicy
import Registration
import TestSupport
import Testing
import Timekeeping

@testable import Routing

@Suite("What is known of flows")
struct KnownFlowsTests {
    private let phone = MachineScene.phone
    private let tls = Flow(transport: .tls, listener: 1, connection: 7, remote: MachineScene.pbx.remote)
    private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 0) + .seconds(seconds) }

    private func settings(_ span: Duration) -> ProxySettings {
        var settings = ProxySettings()
        settings.call.ringLiveFlowWithin = span
        return settings
    }

    // MARK: Life

    @Test func `signs of life count only if a setting asks for them, and from then on`() {
        var flows = KnownFlows(settings(.zero))
        flows.heard(phone, span: .zero, now: at(0))
        let atFirst = (flows.watchesActivity, flows.wasAlive(phone, now: at(0)))
        #expect(atFirst == (false, false))
        flows.watchActivity(settings(.seconds(10)))
        let then = (flows.watchesActivity, flows.wasAlive(phone, now: at(0)))
        #expect(then == (true, false))
        flows.heard(phone, span: .zero, now: at(1))
        let later = (flows.wasAlive(phone, now: at(10)), flows.wasAlive(phone, now: at(11)))
        #expect(later == (true, false))
        flows.watchActivity(settings(.zero))
        let atLast = flows.wasAlive(phone, now: at(2))
        #expect(!atLast)
    }

    @Test func `a device is live by its REGISTER or by its flow, within the span`() throws {
        var scene = MachineScene()
        let registrar = try scene.registrar("t1")
        let target = try #require(registrar.bindings.forkTargets(for: MachineScene.bob, now: scene.now.instant).first)
        var flows = KnownFlows(settings(.seconds(10)))
        let others = KnownFlows(settings(.zero))
        let isLive = (flows.isLive(target, now: scene.now), others.isLive(target, now: scene.now))
        #expect(isLive == (true, false))
        scene.pass(.seconds(10))
        let isLiveLater = flows.isLive(target, now: scene.now)
        flows.heard(target.flow, span: .zero, now: scene.now.instant)
        scene.pass(.seconds(9))
        let hasShownLife = flows.isLive(target, now: scene.now)
        flows.ended(target.flow)
        let hasEnded = !flows.isLive(target, now: scene.now)
        #expect(!isLiveLater && hasShownLife && hasEnded)
    }

    // MARK: Certificates

    @Test func `a connection has the names that its peer has proved, until it ends`() {
        var flows = KnownFlows(settings(.zero))
        #expect(flows.names(on: tls) == nil)
        flows.proved(["pbx.example.net"], on: tls)
        #expect(flows.names(on: tls) == ["pbx.example.net"])
        let other = Flow(transport: .tls, listener: 1, connection: 8, remote: tls.remote)
        #expect(flows.names(on: other) == nil)
        flows.ended(other)
        #expect(flows.names(on: tls) != nil)
        flows.ended(tls)
        #expect(flows.names(on: tls) == nil)
    }

    @Test func `a peer that proves nothing has no names, and neither has a flow without a connection`() {
        var flows = KnownFlows(settings(.zero))
        flows.proved(["a"], on: tls)
        flows.proved([], on: tls)
        #expect(flows.names(on: tls) == nil)
        let datagram = Flow(transport: .udp, listener: 0, connection: 0, remote: tls.remote)
        flows.proved(["a"], on: datagram)
        #expect(flows.names(on: datagram) == nil)
    }

    // MARK: Flow-Timers

    @Test func `the engine sets one timer at a time, and none without a phone`() {
        var flows = KnownFlows(settings(.zero))
        let none = flows.armsTimer()
        flows.toldTimer(DeviceID(rawValue: 1), on: phone, span: .seconds(30), now: at(0))
        flows.toldTimer(DeviceID(rawValue: 2), on: MachineScene.pbx, span: .seconds(30), now: at(5))
        let (first, second) = (flows.armsTimer(), flows.armsTimer())
        #expect(none == nil && first == at(30) && second == nil)
        flows.timerDue()
        #expect(flows.armsTimer() == at(30))
    }

    @Test func `a silent flow is told once, with the devices that are still on it, and is heard again`() {
        var flows = KnownFlows(settings(.zero))
        for number: UInt64 in 1...2 {
            flows.toldTimer(DeviceID(rawValue: number), on: phone, span: .seconds(30), now: at(0))
        }
        #expect(flows.heard(phone, span: .seconds(30), now: at(10)).isEmpty)
        let early = flows.fallenSilent(span: .seconds(30), now: at(30)) { _, _ in true }
        #expect(early == nil)
        let silent = flows.fallenSilent(span: .seconds(30), now: at(40)) { device, _ in device.rawValue == 2 }
        #expect(silent?.flow == phone && silent?.bindings == [DeviceID(rawValue: 2)])
        let again = flows.fallenSilent(span: .seconds(30), now: at(90)) { _, _ in true }
        #expect(again == nil)
        #expect(flows.heard(phone, span: .seconds(30), now: at(91)) == [DeviceID(rawValue: 2)])
    }

    @Test func `phones that are not asked any more are not silent`() {
        var flows = KnownFlows(settings(.zero))
        flows.toldTimer(DeviceID(rawValue: 1), on: phone, span: .seconds(30), now: at(0))
        flows.timersEnded()
        let silent = flows.fallenSilent(span: .seconds(30), now: at(100)) { _, _ in true }
        #expect(silent == nil && flows.armsTimer() == nil)
    }
}
