import HTTPClient

/// The requests that wait for a connection, in their order. A request that has ended stays in the queue until it is the
/// first, or until many ended requests are removed together.
struct ExchangeQueue {
    private var items: [HTTPExchange?] = []
    private var start = 0
    /// The number of requests in the queue that have not ended.
    private(set) var count = 0

    private static let deadLimit = 1000

    var first: HTTPExchange? { items[start...].lazy.compactMap { $0 }.first { $0.isWaiting } }

    mutating func append(_ exchange: HTTPExchange) {
        items.append(exchange)
        count += 1
    }

    mutating func popFirst() -> HTTPExchange? {
        while start < items.count {
            let exchange = items[start].take()
            start += 1
            if let exchange, exchange.isWaiting {
                count -= 1
                if start == items.count || start > max(count, Self.deadLimit) { compact() }
                return exchange
            }
        }
        compact()
        return nil
    }

    /// Inserts requests, in their order, before all waiting requests.
    mutating func prepend(_ exchanges: [HTTPExchange]) {
        items.replaceSubrange(..<start, with: exchanges)
        start = 0
        count += exchanges.count
    }

    /// Notes that a request in the queue has ended.
    mutating func noteEnd() {
        count -= 1
        if items.count - start - count > Self.deadLimit + count { compact() }
    }

    mutating func removeAll() -> [HTTPExchange] {
        defer { self = ExchangeQueue() }
        return items[start...].compactMap { $0 }.filter(\.isWaiting)
    }

    private mutating func compact() {
        if count == 0 {
            items.removeAll(keepingCapacity: items.count <= Self.deadLimit)
        } else {
            items = items[start...].filter { $0?.isWaiting == true }
        }
        start = 0
    }
}

extension HTTPExchange {
    var isWaiting: Bool { isUnderWay && connection == nil }
}
