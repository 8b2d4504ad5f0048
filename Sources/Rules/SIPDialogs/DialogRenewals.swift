package import Addressing
import Collections
package import Timekeeping

/// The expiry time of each dialog: the expiry of its dialog token, or a later time after a renewal (T20.5).
///
/// ``DialogRenewals`` stores only dialogs that a request has renewed. A full table of renewals drops the renewal that
/// expires first.
package struct DialogRenewals {
    package let limit: Int
    private var ends: [UInt64: UnixTime] = [:]
    /// The renewals in the order of their expiry.
    ///
    /// A dialog's older renewal stays in the queue and is ignored.
    private var order = Queue<(digest: UInt64, until: UnixTime)>()

    package init(limit: Int = 100_000) { self.limit = limit }

    package var count: Int { ends.count }

    /// The numbers of the keys that encrypted the tokens of renewed dialogs; the keys are needed as long as the dialogs
    /// live.
    package func keys(at date: UnixTime) -> Set<UInt8> {
        Set(ends.lazy.filter { $0.value >= date }.map { UInt8(truncatingIfNeeded: $0.key >> 56) })
    }

    package func end(of digest: UInt64, made: UnixTime, lifetime: Duration) -> UnixTime {
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

/// The flows on which phones have authenticated by a password inside a dialog. A flow is not stored if the dialog token
/// already contains it.
///
/// A phone needs no password on a flow on which it has authenticated, because an ACK cannot be challenged (RFC 3261
/// section 22.1).
package struct ProvedPlaces {
    private struct Key: Hashable {
        let digest: UInt64
        let isCaller: Bool

        init(_ pass: DialogPass) {
            digest = pass.digest
            isCaller = pass.isFromCaller
        }
    }

    private static let limit = 16_384
    private var flows: [Key: Flow] = [:]
    private var order = Queue<Key>()

    /// The flow on which the request's sender has authenticated in the dialog; `nil` if the sender has not
    /// authenticated.
    package subscript(pass: DialogPass) -> Flow? { flows[Key(pass)] }

    /// Notes that the sender of a request has authenticated on a flow.
    package mutating func note(_ flow: Flow, for pass: DialogPass) {
        let key = Key(pass)
        if flows.updateValue(flow, forKey: key) == nil { order.append(key) }
        while order.count > Self.limit, let oldest = order.popFirst() { flows[oldest] = nil }
    }
}
