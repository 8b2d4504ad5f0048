package import Addressing
import Bytes
package import Calling
package import Messaging
package import ProxyCore
import PushDelivery
import PushPlanning
package import Registration
import Routing
import Timekeeping

/// The data that survives a simulated crash: the committed changes and the journal. Changes in the
/// queue are lost in a crash.
package struct SimulatedDisk {
    private var queued: [(changes: [EngineChange], ticket: CommitTicket?)] = []
    package private(set) var bindings: [DeviceID: StoredBinding] = [:]
    package private(set) var messages: [UInt64: StoredMessage] = [:]
    package private(set) var calls: [UInt64: StoredCall] = [:]
    package var userRules: [AddressOfRecord: StoredUserRules] = [:]
    /// Changes of missed calls that the journal of a node has, until the store has them.
    private var journaled: [StoredBucketChange] = []
    /// The number of changes in ``journaled`` that the written batch has, too.
    private var writing = 0
    private var buckets: [AddressOfRecord: [CallRef: BucketEntry]] = [:]

    package init() {}

    package mutating func queue(_ changes: [EngineChange], _ ticket: CommitTicket?) { queued.append((changes, ticket)) }

    /// Loses all changes that are neither in the store nor in the journal.
    package mutating func dropQueue() { (queued, writing) = ([], 0) }

    /// Queues the changes of missed calls that only the journal has, after a restart.
    mutating func replay() { if !journaled.isEmpty { queued.append((journaled.map { .bucket($0) }, nil)) } }

    /// Notes that the store has the written batch.
    mutating func confirmed() {
        journaled.removeFirst(min(writing, journaled.count))
        writing = 0
    }

    /// Commits all queued changes together, in their order, and returns their tickets.
    package mutating func commit() -> [CommitTicket] {
        let batch = queued
        queued = []
        for (changes, _) in batch {
            for change in changes { apply(change) }
        }
        return batch.compactMap(\.ticket)
    }

    /// Imitates a full disk: refuses all changes with a ticket, and returns their tickets. Changes without a commit
    /// ticket stay in the queue.
    package mutating func refuse() -> [CommitTicket] {
        let refused = queued.compactMap(\.ticket)
        queued.removeAll { $0.ticket != nil }
        return refused
    }

    /// Changes for the store of a cluster, in their order.
    typealias Batch = [(changes: [EngineChange], ticket: CommitTicket?)]

    var hasQueue: Bool { !queued.isEmpty }

    /// Removes and returns the queued changes of a node.
    mutating func takeQueue() -> Batch {
        defer { (queued, writing) = ([], journaled.count) }
        return queued
    }

    /// Puts the changes without a ticket of a failed batch back.
    mutating func restore(_ batch: Batch) {
        (queued, writing) = (batch.filter { $0.ticket == nil } + queued, 0)
    }

    /// Notes a change in the journal of a node.
    mutating func journalOfNode(_ change: CallChange) {
        if case .missed(let change) = change { journaled.append(change) } else { journal(change) }
    }

    /// Commits the batch of a node.
    mutating func apply(_ batch: Batch) {
        for (changes, _) in batch {
            for change in changes { apply(change) }
        }
    }

    /// Removes the rows that no later REGISTER has changed.
    mutating func remove(_ rows: some Sequence<StoredBinding>) {
        for row in rows {
            guard let found = bindings[row.id], found.registeredAt == row.registeredAt, found.cseq == row.cseq else {
                continue
            }
            bindings[row.id] = nil
        }
    }

    private mutating func apply(_ change: EngineChange) {
        switch change {
        case .binding(.upsert(let row)): bindings[row.id] = row
        case .binding(.refresh(let row)): refresh(row)
        case .binding(.delete(let id)): bindings[id] = nil
        case .binding(.deleteContact(let id, let contact)):
            if bindings[id]?.contact == contact { bindings[id] = nil }
        case .binding(.expire(let id, let date)): if bindings[id]?.registeredAt == date { bindings[id] = nil }
        case .userRules(let row): userRules[row.aor] = row
        case .bucket(let change): apply(change)
        case .message(.insert(let row)): messages[row.id] = row
        case .message(.left(let id, let devices)): messages[id]?.devices = devices
        case .message(.delete(let id)): messages[id] = nil
        case .deadToken, .dialogRenewed: break
        }
    }

    /// Writes the values that a refresh changes, as the store does.
    private mutating func refresh(_ row: StoredBinding) {
        guard let old = bindings[row.id], old.registeredAt <= row.registeredAt else { return }
        bindings[row.id] = StoredBinding(
            id: old.id, aor: old.aor, contact: old.contact, callID: row.callID, cseq: row.cseq, path: old.path,
            flow: old.flow, granted: row.granted, freshUntil: row.freshUntil, registeredAt: row.registeredAt,
            isPush: old.isPush, userAgent: row.userAgent ?? old.userAgent, nonce: old.nonce)
    }

    private mutating func apply(_ change: StoredBucketChange) {
        switch change.change {
        case .upsert(var entry):
            // As in PostgreSQL, a device that has learnt of the call does not come back.
            let told = buckets[change.aor]?[entry.callRef]?.told ?? []
            entry.devices.removeAll { told.contains($0) }
            entry.told += told.filter { !entry.told.contains($0) }
            buckets[change.aor, default: [:]][entry.callRef] = entry.devices.isEmpty ? nil : entry
        case .delete(let ref): buckets[change.aor]?[ref] = nil
        }
    }

    /// Writes a change to the journal, which loses nothing in a crash.
    package mutating func journal(_ change: CallChange) {
        switch change {
        case .begun(let call): calls[call.id] = call
        case .branch(let id, _, _), .final(let id, _): calls[id]?.apply(change)
        case .over(let id): calls[id] = nil
        case .missed(let change): apply(change)
        }
    }

    package func restored() -> StoredState {
        StoredState(
            bucketEntries: buckets.flatMap { aor, entries in
                entries.values.map { StoredBucketEntry(aor: aor, entry: $0) }
            }, messages: messages.values.sorted { $0.id < $1.id },
            userRules: userRules.values.sorted { $0.aor.description < $1.aor.description })
    }

    /// The rows of the store about a user; `nil` if no binding has the device.
    package func user(_ subject: UserSubject) -> StoredUser? {
        let found: AddressOfRecord? =
            switch subject {
            case .user(let aor): aor
            case .device(let device): bindings[device]?.aor
            case .account: nil
            }
        return found.map { aor in
            StoredUser(
                aor: aor, bindings: bindings.values.filter { $0.aor == aor }.sorted { $0.id < $1.id },
                bucketEntries: (buckets[aor] ?? [:]).values.map { StoredBucketEntry(aor: aor, entry: $0) },
                rules: userRules[aor])
        }
    }

    /// One page of a search through all contacts.
    func page(_ question: ContactSearch.Question) -> ContactPage {
        let page = bindings.values.filter { row in question.after.map { row.id > $0 } ?? true }
            .sorted { $0.id < $1.id }.prefix(question.limit)
        let wanted = page.filter { row in
            switch question.wanted {
            case .withPush(let domains): return row.isPush && domains.contains(row.aor.host)
            case .expiring(let date, let refreshUntil):
                guard row.isPush else { return row.freshUntil <= date }
                return row.freshUntil > date && refreshUntil.map { row.freshUntil <= $0 } ?? false
            }
        }
        return ContactPage(
            rows: Array(wanted), last: page.count < question.limit ? nil : page.last?.id,
            latest: page.map(\.freshUntil).max() ?? UnixTime(milliseconds: 0))
    }

    func holdsToken(_ prid: ByteString) -> Bool {
        bindings.values.contains { $0.contact.string.contains("pn-prid=\(prid)") }
    }
}
