import PushDelivery
import Timekeeping

/// Remembers the push orders (notifications of application servers) of the last minutes, because the store gets a
/// push's records only some time after the push's end.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
final class RecentOrders: @unchecked Sendable {
    struct Order {
        let sent, skipped: Int
        /// The domains of the sender of the push order. Only this sender may see the numbers of the whole order.
        let domains: DomainScope
        fileprivate let date: UnixTime
    }

    private var orders: [PushCode: Order] = [:]
    /// The codes of recent push orders, oldest first.
    private var codes: [PushCode] = []

    private static let limit = 1000
    private static let age: Duration = .seconds(600)

    subscript(code: PushCode) -> Order? { orders[code] }

    func add(_ code: PushCode, sent: Int, skipped: Int, by domains: DomainScope, at date: UnixTime) {
        if codes.count >= Self.limit { drop(codes.count / 2) }
        drop(codes.prefix { orders[$0].map { date - $0.date > Self.age } ?? true }.count)
        codes.append(code)
        orders[code] = Order(sent: sent, skipped: skipped, domains: domains, date: date)
    }

    private func drop(_ count: Int) {
        for code in codes.prefix(count) { orders[code] = nil }
        codes.removeFirst(count)
    }
}
