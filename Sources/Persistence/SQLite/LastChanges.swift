import ProxyCore
import PushDelivery

/// Which changes of one transaction need not be written, because a later one of it takes their row away or writes it anew:
/// a call that is over soon costs one row, however much happened to it.
struct LastChanges {
    /// How many changes of each call's row in the bucket are still to come.
    private var bucketRows: [CallRef: Int] = [:]
    /// Calls that are under way and over within the transaction.
    private var brief: Set<RecordID> = []

    init(of parts: [StoreIntake.Entry]...) {
        var opened: Set<RecordID> = []
        for entries in parts {
            for entry in entries {
                for change in entry.changes {
                    switch change {
                    case .engine(.bucket(let change)): bucketRows[change.change.callRef, default: 0] += 1
                    case .timeline(.callOpened(let record)): opened.insert(record.id)
                    case .timeline(.record(let record)) where opened.contains(record.id): brief.insert(record.id)
                    case .engine, .timeline, .service, .callsClosed, .pruneTimeline: break
                    }
                }
            }
        }
    }

    /// Whether the change is to be written. It is asked once for each, in their order.
    mutating func counts(_ change: RowChange) -> Bool {
        switch change {
        case .engine(.bucket(let change)):
            let left = (bucketRows[change.change.callRef] ?? 1) - 1
            bucketRows[change.change.callRef] = left
            return left == 0
        case .timeline(.callOpened(let record)): return !brief.contains(record.id)
        case .engine, .timeline, .service, .callsClosed, .pruneTimeline: return true
        }
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
