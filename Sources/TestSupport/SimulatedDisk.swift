package import Addressing
import Bytes
package import ProxyCore
import PushDelivery
package import Registration

/// What survives a crash: changes that were committed. What waits in the queue does not.
package struct SimulatedDisk {
    private var queued: [(changes: [EngineChange], ticket: CommitTicket?)] = []
    package private(set) var bindings: [DeviceID: StoredBinding] = [:]
    package private(set) var messages: [UInt64: StoredMessage] = [:]
    private var buckets: [AddressOfRecord: [CallRef: BucketEntry]] = [:]

    package init() {}

    package mutating func queue(_ changes: [EngineChange], _ ticket: CommitTicket?) { queued.append((changes, ticket)) }

    mutating func dropQueue() { queued = [] }

    /// One group commit: all that waits, in order; the tickets of those who wait for it.
    package mutating func commit() -> [CommitTicket] {
        let batch = queued
        queued = []
        for (changes, _) in batch {
            for change in changes { apply(change) }
        }
        return batch.compactMap(\.ticket)
    }

    private mutating func apply(_ change: EngineChange) {
        switch change {
        case .binding(.upsert(let row)): bindings[row.id] = row
        case .binding(.delete(let id)): bindings[id] = nil
        case .bucket(let change):
            switch change.change {
            case .upsert(let entry): buckets[change.aor, default: [:]][entry.callRef] = entry
            case .delete(let ref): buckets[change.aor]?[ref] = nil
            }
        case .message(.insert(let row)): messages[row.id] = row
        case .message(.left(let id, let devices)): messages[id]?.devices = devices
        case .message(.delete(let id)): messages[id] = nil
        case .deadToken, .dialogRenewed: break
        }
    }

    package func restored() -> StoredState {
        StoredState(
            bucketEntries: buckets.flatMap { aor, entries in
                entries.values.map { StoredBucketEntry(aor: aor, entry: $0) }
            }, messages: messages.values.sorted { $0.id < $1.id })
    }

    func holdsToken(_ prid: ByteString) -> Bool {
        bindings.values.contains { $0.contact.string.contains("pn-prid=\(prid)") }
    }
}
