import ProxyCore
import PushDelivery

/// Which changes of one transaction need not be written, because a later one of it takes their row away or writes it anew:
/// a call that is over soon costs one row, however much happened to it.
struct LastChanges {
    /// The places of these changes among all, the last one first.
    private var needless: [Int] = []
    /// The place of the change that is asked for next.
    private var place = 0

    init(of parts: [StoreIntake.Entry]...) {
        var (bucket, place) = ([Write](), 0)
        for entries in parts {
            for entry in entries {
                for change in entry.changes {
                    switch change {
                    case .engine(.bucket(let change)):
                        bucket.append(Write(row: change.change.callRef.rawValue, place: place))
                    case .engine, .timeline, .service, .pruneTimeline: break
                    }
                    place += 1
                }
            }
        }
        noteFollowed(&bucket)
        needless.sort(by: >)
    }

    /// A change of a row.
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

    /// Whether the next change, in their order, is to be written.
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
