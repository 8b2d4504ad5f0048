import ProxyCore
import PushDelivery
import Registration

/// Finds changes of a transaction that need not be written, because a later change overwrites the same row. For
/// example, a short call changes its missed-call row several times, and only the last change is written.
struct LastChanges {
    /// The indices of the changes that need not be written, in descending order.
    private var needless: [Int] = []
    /// The index of the next change in the transaction.
    private var place = 0

    init(of parts: [StoreIntake.Entry]...) {
        var (bucket, place) = ([Write](), 0)
        for entries in parts {
            for entry in entries {
                for change in entry.changes {
                    switch change {
                    case .engine(.bucket(let change)):
                        bucket.append(Write(row: change.change.callRef.rawValue, place: place))
                    case .engine, .timeline, .service, .pruneTimeline, .countWakes, .pruneWakes: break
                    }
                    place += 1
                }
            }
        }
        noteFollowed(&bucket)
        needless.sort(by: >)
    }

    /// A row that a change writes or removes, and the index of the change.
    private struct Write: Comparable {
        let row: UInt64
        let place: Int

        static func < (left: Write, right: Write) -> Bool { (left.row, left.place) < (right.row, right.place) }
    }

    private mutating func noteFollowed(_ writes: inout [Write]) {
        guard writes.count > 1 else { return }
        writes.sort()
        for index in 1..<writes.count where writes[index].row == writes[index - 1].row {
            needless.append(writes[index - 1].place)
        }
    }

    /// Whether the transaction must write the next change. ``nextCounts()`` must be called once for each change of the
    /// transaction, in order.
    mutating func nextCounts() -> Bool {
        defer { place += 1 }
        guard needless.last == place else { return true }
        needless.removeLast()
        return false
    }
}

extension BucketChange {
    fileprivate var callRef: CallRef {
        switch self {
        case .upsert(let entry): entry.callRef
        case .delete(let callRef): callRef
        }
    }
}
