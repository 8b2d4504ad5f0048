import Addressing
import Bytes
import ProxyPolicy
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

@testable import Calling

/// Creates a call for each name.
private func makeCalls(_ names: String...) throws -> [ProxiedRequest] {
    var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
    let scene = MachineScene()
    return try names.map { name in
        calls.begin(try MachineScene.invite(name), nil, branches: [], purpose: .userCall(scene.offer(name)))
    }
}

private func makeEnded(_ name: String, for devices: [DeviceID]) throws -> EndedCall {
    let call = try makeCalls(name)[0]
    return EndedCall(
        userCall: MachineScene().offer(name), request: call.request, source: call.source,
        until: Instant(nanoseconds: 60_000_000_000),
        reasons: Dictionary(uniqueKeysWithValues: devices.map { ($0, [ByteString("SIP;cause=\($0.rawValue)")]) }),
        rings: [:])
}

@Suite("Calls that are over, for phones that come late")
struct EndedCallsTests {
    @Test func `the oldest is forgotten first, and its bytes are free`() throws {
        var calls = EndedCalls()
        let (one, two) = (try makeEnded("c1", for: []), try makeEnded("c2", for: []))
        calls.append(one)
        calls.append(two)
        #expect(calls.bytes == one.request.count + two.request.count)
        #expect(calls.nextEnd == one.until)
        #expect(calls.dropOldest() === one)
        #expect(calls.dropOldest() === two)
        #expect(calls.dropOldest() == nil)
        #expect(calls.bytes == 0)
    }
}

@Suite("Callers of an earlier run whose connections are gone")
struct AwayCallersTests {
    @Test func `a peer that is back gets its calls, once`() throws {
        var away = AwayCallers()
        let calls = try makeCalls("c1", "c2")
        for call in calls { away.add(call) }
        let wasEmpty = away.isEmpty
        #expect(!wasEmpty)
        #expect(away.take(of: MachineScene.phone.remote.address).map(\.id) == [])
        #expect(away.take(of: MachineScene.pbx.remote.address).map(\.id) == calls.map(\.id))
        #expect(away.take(of: MachineScene.pbx.remote.address).map(\.id) == [])
        let isEmpty = away.isEmpty
        #expect(isEmpty)
    }

    @Test func `a peer is away until it is back`() throws {
        var away = AwayCallers()
        let call = try makeCalls("c1")[0]
        var areAway = [away.isAway(call)]
        away.add(call)
        areAway.append(away.isAway(call))
        _ = away.take(of: MachineScene.pbx.remote.address)
        areAway.append(away.isAway(call))
        #expect(areAway == [false, true, false])
    }
}
