import Addressing
import Bytes
import ProxyPolicy
import PushDelivery
import PushPlanning
import Testing
import Timekeeping

/// Tests the limits of pushes of two nodes that exchange their counts once a second.
@Suite struct `Limits of pushes at two nodes` {
    private final class Nodes {
        private var rates: [PushRates]
        private var now = Instant(nanoseconds: 1_000_000_000)

        init() {
            var settings = ProxySettings()
            settings.call.pushesPerDevice = 20
            settings.call.pushesPerCaller = 12
            settings.node = OwnNode(
                name: "a", place: ByteString("a:1"), listener: 0, run: 1, secret: SipHash.Key(low: 1, high: 2))
            rates = [PushRates(settings), PushRates(settings)]
        }

        func admits(_ device: DeviceID, for caller: Caller, at node: Int) -> Bool {
            rates[node].admits(device, for: caller, now: now)
        }

        func admits(_ caller: Caller, at node: Int) -> Bool { rates[node].admits(caller, now: now) }

        func notifies(_ device: DeviceID, for caller: Caller?, at node: Int) -> Bool {
            guard rates[node].mayNotify(device, for: caller, now: now) else { return false }
            rates[node].notified(device, for: caller, now: now)
            return true
        }

        func beat() {
            now = now + .seconds(1)
            let told = rates.indices.map { rates[$0].takeCounts(now: now).counts }
            for node in rates.indices {
                for count in told[1 - node] { rates[node].add(count, now: now) }
            }
        }
    }

    private let phone = DeviceID(rawValue: 1 << 40 + 7)
    private func caller(_ number: UInt64, isTrusted: Bool = false) -> Caller {
        Caller(hash: number, isTrusted: isTrusted)
    }

    @Test func `a device gets the pushes of one node from both nodes`() {
        let nodes = Nodes()
        var pushes = 0
        for second in 0..<60 {
            for node in 0..<2
            where nodes.admits(phone, for: caller(UInt64(second), isTrusted: true), at: node) { pushes += 1 }
            nodes.beat()
        }
        // Twenty at once, and twenty in a minute.
        #expect((38...42).contains(pushes))
        #expect(nodes.admits(DeviceID(rawValue: 9), for: caller(1), at: 0))
    }

    @Test func `one caller has one share of a device's pushes at both nodes together`() {
        let nodes = Nodes()
        var pushes = 0
        for _ in 0..<10 {
            for node in 0..<2 where nodes.admits(phone, for: caller(1), at: node) { pushes += 1 }
            nodes.beat()
        }
        #expect((10...13).contains(pushes))
        #expect(nodes.admits(phone, for: caller(2, isTrusted: true), at: 0))
    }

    @Test func `one caller has one limit of pushes to all devices`() {
        let nodes = Nodes()
        var pushes = 0
        for _ in 0..<10 {
            for node in 0..<2 where nodes.admits(caller(1), at: node) { pushes += 1 }
            nodes.beat()
        }
        #expect((12...16).contains(pushes))
        #expect(nodes.admits(caller(2), at: 1))
    }

    @Test func `notifications count at both nodes, and do not count as pushes for calls`() {
        let nodes = Nodes()
        var pushes = 0
        for _ in 0..<6 {
            for node in 0..<2 {
                for _ in 0..<2 where nodes.notifies(phone, for: nil, at: node) { pushes += 1 }
            }
            nodes.beat()
        }
        #expect((10...15).contains(pushes))
        #expect(nodes.admits(phone, for: caller(1), at: 0) && nodes.admits(phone, for: caller(1), at: 1))
    }
}
