import PushDelivery
import Testing
import Timekeeping

@testable import HTTPServices

@Suite("Orders of the last minutes")
struct RecentOrdersTests {
    private func code(_ number: UInt64) -> PushCode { PushCode(high: 0, low: number) }

    @Test func `are remembered for ten minutes`() {
        let orders = RecentOrders()
        let start = UnixTime(seconds: 1000)
        orders.add(code(1), sent: 2, skipped: 3, by: .wholeDaemon, at: start)
        orders.add(code(2), sent: 0, skipped: 0, by: .wholeDaemon, at: start + .seconds(600))
        #expect(orders[code(1)]?.sent == 2 && orders[code(1)]?.skipped == 3)
        orders.add(code(3), sent: 0, skipped: 0, by: .wholeDaemon, at: start + .seconds(601))
        #expect(orders[code(1)] == nil)
        #expect(orders[code(2)] != nil && orders[code(3)] != nil)
    }

    @Test func `are a thousand at most, the newest`() {
        let orders = RecentOrders()
        for number in 1...5000 as ClosedRange<UInt64> {
            orders.add(code(number), sent: 1, skipped: 0, by: .wholeDaemon, at: UnixTime(seconds: 0))
        }
        let kept = (1...5000 as ClosedRange<UInt64>).filter { orders[code($0)] != nil }
        #expect(kept.count <= 1000 && kept.last == 5000 && kept.first.map { $0 > 4000 } == true)
    }
}
