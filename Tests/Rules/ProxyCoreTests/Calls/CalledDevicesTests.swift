import Addressing
import Bytes
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

@testable import ProxyCore

/// The tables that calls are found by, made alone. The calls themselves come from ``Calls``.
private func makeCalls(_ names: String...) throws -> [ProxiedRequest] {
    var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
    let scene = MachineScene()
    return try names.map { name in
        calls.begin(try MachineScene.invite(name), nil, branches: [], purpose: .userCall(scene.offer(name)))
    }
}

@Suite("Which calls a device has, and by which flow it is waited for")
struct CalledDevicesTests {
    private let first = DeviceID(rawValue: 1)
    private let second = DeviceID(rawValue: 2)

    @Test func `a device has its calls, oldest first and each once, until they are removed`() throws {
        var devices = CalledDevices()
        let calls = try makeCalls("c1", "c2")
        for call in calls + calls { devices.add(call, to: first) }
        #expect(devices.calls(of: first).map(\.id) == calls.map(\.id) && devices.calls(of: second).isEmpty)
        devices.remove(calls[0], of: first)
        devices.remove(calls[0], of: first)
        devices.remove(calls[1], of: second)
        #expect(devices.calls(of: first).map(\.id) == [calls[1].id])
        let wasEmpty = devices.isEmpty
        devices.remove(calls[1], of: first)
        let isEmpty = devices.isEmpty
        #expect(!wasEmpty && isEmpty)
    }

    @Test func `a flow is watched for all of its devices, and not beyond their calls`() throws {
        var devices = CalledDevices()
        let call = try makeCalls("c1")[0]
        for device in [first, second] {
            devices.add(call, to: device)
            devices.watch(MachineScene.phone, of: device)
            devices.watch(MachineScene.phone, of: device)
        }
        #expect(devices.waiting(on: MachineScene.phone) == [first, second])
        devices.watch(MachineScene.pbx, of: first)
        #expect(devices.waiting(on: MachineScene.phone) == [second])
        #expect(devices.waiting(on: MachineScene.pbx) == [first])
        devices.unwatch(first)
        #expect(devices.waiting(on: MachineScene.pbx) == [])
        devices.remove(call, of: second)
        #expect(devices.waiting(on: MachineScene.phone) == [])
        let watchesNothing = devices.watchesNothing
        #expect(watchesNothing)
    }
}

@Suite("Calls that are over, for phones that come late")
struct EndedCallsTests {
    private let first = DeviceID(rawValue: 1)
    private let second = DeviceID(rawValue: 2)

    private func ended(_ name: String, _ devices: [DeviceID]) throws -> EndedCall {
        let call = try makeCalls(name)[0]
        return EndedCall(
            userCall: MachineScene().offer(name), request: call.request, source: call.source,
            until: Instant(nanoseconds: 60_000_000_000),
            reasons: Dictionary(uniqueKeysWithValues: devices.map { ($0, []) }), rings: [:])
    }

    @Test func `a device hears of each once, and what is dropped is forgotten`() throws {
        var calls = EndedCalls()
        let (one, two) = (try ended("c1", [first, second]), try ended("c2", [first]))
        calls.append(one)
        calls.append(two)
        #expect(calls.bytes == one.request.count + two.request.count)
        #expect(calls.nextEnd == one.until)
        #expect(calls.take(for: second).map(\.userCall.key) == [one.userCall.key])
        #expect(calls.take(for: second).count == 0)
        // The first device waits for the other call.
        #expect(calls.dropOldest() == [])
        #expect(calls.dropOldest() == [first])
        #expect(calls.dropOldest() == nil)
        #expect(calls.take(for: first).count == 0)
        #expect(calls.bytes == 0)
    }
}

@Suite("Callers of an earlier run whose connections are gone")
struct AwayCallersTests {
    @Test func `a peer that is back gets its calls, once`() throws {
        var away = AwayCallers()
        let calls = try makeCalls("c1", "c2")
        for call in calls { away.add(call, of: nil) }
        #expect(!away.isEmpty)
        #expect(away.take(of: MachineScene.phone.remote.address).map(\.id) == [])
        #expect(away.take(of: MachineScene.pbx.remote.address).map(\.id) == calls.map(\.id))
        #expect(away.take(of: MachineScene.pbx.remote.address).map(\.id) == [])
        #expect(away.isEmpty)
    }

    @Test func `a phone that is back gets its own`() throws {
        var away = AwayCallers()
        let calls = try makeCalls("c1", "c2")
        for (number, call) in calls.enumerated() { away.add(call, of: DeviceID(rawValue: UInt64(number + 1))) }
        #expect(away.take(of: DeviceID(rawValue: 2)).map(\.id) == [calls[1].id])
        #expect(away.take(of: DeviceID(rawValue: 3)).map(\.id) == [])
    }

    @Test func `a peer is away until it is back`() throws {
        var away = AwayCallers()
        let call = try makeCalls("c1")[0]
        #expect(!away.isAway(call))
        away.add(call, of: nil)
        #expect(away.isAway(call))
        _ = away.take(of: MachineScene.pbx.remote.address)
        #expect(!away.isAway(call))
    }
}
