@testable import Waking
import Calling
import ProxyPolicy
import Addressing
import Bytes
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

/// Creates a proxied request for each of the given calls.
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

extension WakeDesk.Releases {
    /// Describes what the desk returned for a device, in words and in the returned order.
    fileprivate var words: [String] {
        map { release in
            switch release {
            case .caller(let call): "caller \(call.id.rawValue)"
            case .endedCalls(let ended): "ended \(ended.map { "\($0.userCall.key.callID)" }.joined(separator: " "))"
            case .call(let call): "call \(call.id.rawValue)"
            case .messages: "messages"
            case .missedCalls: "list"
            }
        }
    }
}

/// Tests the desk for waiting requests alone, without an engine.
@Suite("Requests that wait for devices")
struct WakeDeskTests {
    private let first = DeviceID(rawValue: 1)
    private let second = DeviceID(rawValue: 2)

    private func client(_ number: UInt64) -> ClientTransactionID { ClientTransactionID(rawValue: number) }

    private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    // MARK: What waits

    @Test func `a device has its calls, oldest first and each once, until they are removed`() throws {
        var desk = WakeDesk()
        let calls = try makeCalls("c1", "c2")
        for call in calls + calls { desk.waits(call, for: first) }
        #expect(desk.calls(of: first).map(\.id) == calls.map(\.id) && desk.calls(of: second).isEmpty)
        desk.noLongerWaits(calls[0], for: first)
        desk.noLongerWaits(calls[0], for: first)
        desk.noLongerWaits(calls[1], for: second)
        #expect(desk.calls(of: first).map(\.id) == [calls[1].id])
        let wasEmpty = desk.isEmpty
        desk.noLongerWaits(calls[1], for: first)
        let isEmpty = desk.isEmpty
        #expect(!wasEmpty && isEmpty)
    }

    @Test func `a device that registers releases all that waits for it, in this order`() throws {
        var desk = WakeDesk()
        let calls = try makeCalls("c1", "c2", "c3")
        desk.waits(calls[1], for: first)
        desk.waits(try makeEnded("over", for: [first, second]))
        desk.waits(callerOf: calls[0], for: first)
        desk.waits(try makeEnded("later", for: [first]))
        desk.waits(calls[2], for: first)
        desk.waits(calls[2], for: second)
        #expect(desk.returned(first).words == ["caller 1", "ended over later", "call 2", "call 3", "messages", "list"])
        // The desk returns a waiting call at each REGISTER of the device until the call ends. The desk returns a
        // waiting caller or an ended call only once.
        #expect(desk.returned(first).words == ["call 2", "call 3", "messages", "list"])
        #expect(desk.returned(second).words == ["ended over", "call 3", "messages", "list"])
    }

    @Test func `a sign of life releases the same requests as a REGISTER, without the list of missed calls`()
        throws
    {
        var desk = WakeDesk()
        desk.waits(try makeCalls("c1")[0], for: first)
        #expect(desk.showedLife(first).words == ["call 1", "messages"])
        #expect(desk.showedLife(second).words == ["messages"])
        #expect(desk.returned(second).words == ["messages", "list"])
        let isEmpty = desk.isEmpty
        #expect(!isEmpty)
    }

    @Test func `an ended call that is forgotten is not released`() throws {
        var desk = WakeDesk()
        let (one, two) = (try makeEnded("one", for: [first, second]), try makeEnded("two", for: [first]))
        desk.waits(one)
        desk.waits(two)
        desk.noLongerWaits(one)
        #expect(desk.returned(first).words == ["ended two", "messages", "list"])
        desk.noLongerWaits(two)
        let isEmpty = desk.isEmpty
        #expect(isEmpty)
    }

    @Test func `callers of an earlier run are dropped together`() throws {
        var desk = WakeDesk()
        let calls = try makeCalls("c1", "c2")
        desk.waits(callerOf: calls[0], for: first)
        desk.waits(callerOf: calls[1], for: second)
        desk.waits(calls[0], for: second)
        let had = desk.hasCallers
        desk.callersGivenUp()
        let has = desk.hasCallers
        #expect(had && !has)
        #expect(desk.returned(second).words == ["call 1", "messages", "list"])
        #expect(desk.returned(first).words == ["messages", "list"])
    }

    // MARK: Messages

    @Test func `a device that sleeps is woken once, until it is back`() {
        var desk = WakeDesk()
        desk.fellAsleep(first)
        let woken = [desk.takesWake(first), desk.takesWake(first)]
        #expect(woken == [true, false] && desk.isAsleep(first) && !desk.isAsleep(second))
        desk.wakeFailed(first)
        let again = desk.takesWake(first)
        #expect(again)
        let wasAsleep = [desk.messagesGo(to: first), desk.messagesGo(to: first), desk.messagesGo(to: second)]
        #expect(wasAsleep == [true, false, false] && !desk.isAsleep(first))
        let isEmpty = desk.isEmpty
        #expect(isEmpty)
    }

    // MARK: The list of missed calls

    @Test func `a list waits for the last of several answers`() {
        var desk = WakeDesk()
        #expect(desk.listWaits(for: first, answering: client(1), now: at(0)) == at(2000))
        #expect(desk.listWaits(for: first, answering: client(2), now: at(500)) == nil)
        #expect(desk.answered(first, farewell: client(1)) == false)
        #expect(desk.listWaits(for: first) == true)
        #expect(desk.answered(first, farewell: client(1)) == false)
        #expect(desk.answered(second, farewell: client(2)) == false)
        #expect(desk.answered(first, farewell: client(2)) == true)
        #expect(desk.listWaits(for: first) == false)
    }

    @Test func `it waits two seconds from the first question, and a late answer does not count`() {
        var desk = WakeDesk()
        _ = desk.listWaits(for: first, answering: client(1), now: at(0))
        _ = desk.listWaits(for: first, answering: client(2), now: at(1900))
        desk.listIsDue(of: first, now: at(1999))
        #expect(desk.listWaits(for: first) && !desk.listWaits(for: second))
        desk.listIsDue(of: first, now: at(2000))
        #expect(desk.listWaits(for: first) == false)
        #expect(desk.answered(first, farewell: client(2)) == false)
    }

    @Test func `the end of an earlier question's time does not end the next one`() {
        var desk = WakeDesk()
        _ = desk.listWaits(for: first, answering: client(1), now: at(0))
        #expect(desk.answered(first, farewell: client(1)) == true)
        #expect(desk.listWaits(for: first, answering: client(2), now: at(1500)) == at(3500))
        desk.listIsDue(of: first, now: at(2000))
        #expect(desk.listWaits(for: first) == true)
    }

    // MARK: Devices that go, or have another number

    @Test func `requests stop waiting for a removed device, except for calls that it may have`() throws {
        var desk = WakeDesk()
        let calls = try makeCalls("c1", "c2")
        desk.waits(calls[0], for: first)
        desk.waits(callerOf: calls[1], for: first)
        desk.waits(try makeEnded("over", for: [first]))
        desk.fellAsleep(first)
        _ = desk.listWaits(for: first, answering: client(1), now: at(0))
        #expect(desk.removed(first).map(\.id) == [calls[0].id])
        #expect(!desk.isAsleep(first) && !desk.listWaits(for: first))
        #expect(desk.returned(first).words == ["call 1", "messages", "list"])
        #expect(desk.removed(second).count == 0)
    }

    @Test func `requests that wait for a device follow its new number, and its flow is not watched`() throws {
        var desk = WakeDesk()
        let calls = try makeCalls("c1", "c2")
        let ended = try makeEnded("over", for: [first])
        desk.waits(calls[0], for: first)
        desk.waits(calls[1], for: first)
        desk.waits(calls[1], for: second)
        desk.waits(ended)
        desk.fellAsleep(first)
        desk.watch(MachineScene.phone, of: first)
        #expect(desk.renamed(first, to: second).map(\.id) == calls.map(\.id))
        #expect(desk.watched(on: MachineScene.phone) == [] && desk.calls(of: first).isEmpty)
        #expect(!desk.isAsleep(first) && desk.isAsleep(second))
        #expect(ended.reasons == [second: [ByteString("SIP;cause=1")]])
        #expect(desk.returned(second).words == ["ended over", "call 2", "call 1", "messages", "list"])
        #expect(desk.renamed(first, to: second).count == 0)
    }

    // MARK: Watched flows

    @Test func `a flow is watched for all of its devices, as long as requests wait for them`() throws {
        var desk = WakeDesk()
        let call = try makeCalls("c1")[0]
        for device in [first, second] {
            desk.watch(MachineScene.phone, of: device)
            #expect(desk.watched(on: MachineScene.phone).contains(device) == false, "nothing waits")
            desk.waits(call, for: device)
            desk.watch(MachineScene.phone, of: device)
            desk.watch(MachineScene.phone, of: device)
        }
        #expect(desk.watched(on: MachineScene.phone) == [first, second])
        desk.watch(MachineScene.pbx, of: first)
        #expect(desk.watched(on: MachineScene.phone) == [second])
        #expect(desk.watched(on: MachineScene.pbx) == [first])
        _ = desk.returned(first)
        #expect(desk.watched(on: MachineScene.pbx) == [])
        desk.noLongerWaits(call, for: second)
        #expect(desk.watched(on: MachineScene.phone) == [])
        let watchesNothing = desk.watchesNothing
        #expect(watchesNothing)
    }

    @Test func `after the last call a flow is watched only for messages`() throws {
        var desk = WakeDesk()
        let call = try makeCalls("c1")[0]
        for device in [first, second] {
            desk.waits(call, for: device)
            desk.waits(try makeEnded("over", for: [device]))
            desk.watch(MachineScene.phone, of: device)
        }
        desk.fellAsleep(first)
        desk.noLongerWaits(call, for: first)
        desk.noLongerWaits(call, for: second)
        #expect(desk.watched(on: MachineScene.phone) == [first])
        // ``WakeDesk`` still waits for a sign of life of the second device on the flow, for which an ended call waits.
        desk.watch(MachineScene.phone, of: second)
        #expect(desk.watched(on: MachineScene.phone) == [first, second])
    }

    @Test func `a flow is watched until the last request for its device is over`() throws {
        var desk = WakeDesk()
        let ended = try makeEnded("over", for: [first])
        desk.waits(ended)
        desk.fellAsleep(first)
        desk.watch(MachineScene.phone, of: first)
        desk.noLongerWaits(ended)
        #expect(desk.watched(on: MachineScene.phone) == [first])
        desk.messagesGo(to: first)
        #expect(desk.watched(on: MachineScene.phone) == [])
    }

    @Test func `a flow that has ended releases nothing any more, and requests keep waiting`() throws {
        var desk = WakeDesk()
        let call = try makeCalls("c1")[0]
        for device in [first, second] {
            desk.waits(call, for: device)
            desk.watch(MachineScene.phone, of: device)
        }
        desk.flowEnded(MachineScene.pbx)
        #expect(desk.watched(on: MachineScene.phone) == [first, second])
        desk.flowEnded(MachineScene.phone)
        let watchesNothing = desk.watchesNothing
        #expect(watchesNothing && desk.calls(of: second).count == 1)
    }
}
