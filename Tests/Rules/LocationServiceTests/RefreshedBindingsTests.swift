@testable import LocationService
import Addressing
import Bytes
import Testing
import TestSupport

@Suite("Bindings whose rows are not up to date")
struct RefreshedBindingsTests {
    @Test func `each is written once, with the phone's latest values`() {
        var refreshed = RefreshedBindings()
        #expect(refreshed.isEmpty)
        for device in 1...3 as ClosedRange<UInt64> {
            refreshed.insert(DeviceID(rawValue: device), saying: ByteString("Linphone/5.0"))
        }
        refreshed.insert(2, saying: ByteString("Linphone/5.1"))
        refreshed.insert(3, saying: .empty)
        #expect(refreshed.agent(of: 2) == ByteString("Linphone/5.1") && refreshed.agent(of: 3) == .empty)
        #expect(refreshed.agent(of: 4) == nil)
        var taken: [DeviceID: ByteString?] = [:]
        for _ in 0..<2 {
            for entry in refreshed.take(2) { taken[entry.device] = entry.agent }
        }
        #expect(taken == [1: ByteString("Linphone/5.0"), 2: ByteString("Linphone/5.1"), 3: .empty])
        #expect(refreshed.isEmpty)
    }

    @Test func `invented names fill no memory, and displace no other name`() {
        var refreshed = RefreshedBindings()
        refreshed.insert(1, saying: ByteString("Honest/1.0"))
        for number in 2...1000 as ClosedRange<UInt64> {
            refreshed.insert(DeviceID(rawValue: number), saying: ByteString("Invented/\(number)"))
        }
        #expect(refreshed.agent(of: 1) == ByteString("Honest/1.0"))
        refreshed.insert(2000, saying: ByteString("Honest/1.0"))
        #expect(refreshed.agent(of: 2000) == ByteString("Honest/1.0"))
        let taken = refreshed.take(2000)
        #expect(taken.count == 1001)
        // If the table of User-Agent names is full, the device's entry has no name, and the store keeps the former
        // name.
        #expect(taken.count { $0.agent != nil } == RefreshedBindings.maximumAgents + 1)
        // After `take`, the table has room for new user agent names.
        refreshed.insert(2, saying: ByteString("Invented/2000"))
        #expect(refreshed.agent(of: 2) == ByteString("Invented/2000"))
    }
}
