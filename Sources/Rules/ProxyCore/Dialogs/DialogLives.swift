import Addressing
import Collections
package import Timekeeping

/// How long dialogs live: as long as their token says, and longer where their traffic has renewed them (T20.5).
///
/// Only what was renewed is remembered, in tables of fixed size; when there is no room, the renewal that ends first gives
/// way.
package struct DialogLives {
    package let limit: Int
    private var ends: [UInt64: UnixTime] = [:]
    /// The renewals in the order in which they end. When a dialog is renewed again, its old entry stays and counts for nothing.
    private var order = Queue<(digest: UInt64, until: UnixTime)>()

    package init(limit: Int = 100_000) { self.limit = limit }

    package var count: Int { ends.count }

    /// The numbers of the keys that sealed the tokens of dialogs which were renewed and still live.
    package func keys(at date: UnixTime) -> Set<UInt8> {
        Set(ends.lazy.filter { $0.value >= date }.map { UInt8(truncatingIfNeeded: $0.key >> 56) })
    }

    func end(of digest: UInt64, made: UnixTime, lifetime: Duration) -> UnixTime {
        let first = made + lifetime
        guard let renewed = ends[digest] else { return first }
        return max(first, renewed)
    }

    package mutating func renew(_ digest: UInt64, until: UnixTime, now: UnixTime) {
        ends[digest] = until
        order.append((digest, until))
        while let first = order.first, ends.count > limit || order.count > 4 * limit || first.until < now {
            _ = order.popFirst()
            if ends[first.digest] == first.until { ends[first.digest] = nil }
        }
    }
}

/// Phones that have shown a password from another place than their dialog knew: their further requests inside it come
/// from there, and an ACK cannot be asked for one (RFC 3261 section 22.1).
struct ProvedPlaces {
    struct Key: Hashable {
        let digest: UInt64
        let isCaller: Bool
    }

    private static let limit = 16_384
    private var flows: [Key: Flow] = [:]
    private var order = Queue<Key>()

    subscript(key: Key) -> Flow? { flows[key] }

    mutating func note(_ flow: Flow, for key: Key) {
        if flows.updateValue(flow, forKey: key) == nil { order.append(key) }
        while order.count > Self.limit, let oldest = order.popFirst() { flows[oldest] = nil }
    }
}
