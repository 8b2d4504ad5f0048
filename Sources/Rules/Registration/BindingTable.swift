package import Addressing
package import Bytes
import Collections
package import Timekeeping

/// All bindings of one shard, in memory, with indexes by AOR, by id and by connection.
///
/// Binding records are in slots of fixed-size chunks, so that growth never moves a record. The bindings of one AOR are
/// a chain of slots. The texts of bindings are stored separately: see ``BindingRecord``. A REGISTER changes the table
/// only when its ``RegisterPlan`` or ``ContactRefresh`` is applied.
package struct BindingTable: ~Copyable, Sendable {
    static let noSlot = UInt32.max
    private static let chunkSize: UInt32 = 1024

    private var chunks: [[BindingRecord]] = []
    var blocks = ByteSlabs()
    var frames = ContactFrames()
    private var slotCount: UInt32 = 0
    private var freeSlot = BindingTable.noSlot
    private var byAOR = SlotIndex()
    private var byID = SlotIndex()
    /// The bindings on each open stream connection, by the connection's number; used when the connection ends.
    private var byConnection = SlotIndex()
    private var departed = DepartedAddresses()
    /// The expiry times of bindings without push token, by slot. A refresh does not change the queue. When the old
    /// expiry time of a refreshed binding is reached, the binding gets its new expiry time.
    @usableFromInline var expiry = DeadlineQueue<UInt32>()
    /// For each slot, the entry of its binding in ``expiry``. Bindings with push token have no entry, because they do
    /// not expire.
    private var deadlines: [DeadlineID] = []
    /// The number of bindings for each provider, by the provider's number. Index 0 of the array counts the contacts
    /// without push token.
    private var countByProvider = [Int](repeating: 0, count: 256)
    /// For each domain with a limit, the number of its bindings, by domain in lower case.
    private var countByDomain: [ByteString: Int] = [:]
    /// The push providers that are switched on. Contacts of switched-off providers are treated as contacts without push
    /// (reading A4).
    package internal(set) var enabled: ProviderSet
    /// The new ids of devices whose binding with the old id was removed: see ``takeSuccessor(of:)``.
    var successors: [DeviceID: DeviceID] = [:]
    /// The new bindings of failed commits, whose rows the store of a cluster may have all the same. The store's writer
    /// deletes these rows with its next commit, so a REGISTER that refreshes such a row must be stored before the 200.
    var unconfirmed = Set<DeviceID>()
    /// The id that the next new binding gets.
    package internal(set) var nextID = DeviceID(rawValue: 1)
    /// Whether other nodes of a cluster give ids too. Each run of a node has a range of ids of its own.
    let sharesIDs: Bool
    /// The maximum number of ``unconfirmed`` bindings. The store's writer deletes no more rows.
    static let mostUnconfirmed = 50_000

    /// Creates an empty table of bindings.
    ///
    /// With the date of the start, new ids are higher than all ids of earlier runs, even of deleted rows. The id of a
    /// removed device must not be reused, because a list of missed calls may still contain the id. Without the date of
    /// the start, binding ids count from 1. In a cluster, the number of the node's run makes the ids of all nodes
    /// different. Each run has a billion ids, which are higher than all ids of a daemon without a cluster.
    package init(enabled: ProviderSet, startedAt date: UnixTime? = nil, run: UInt32? = nil) {
        self.enabled = enabled
        sharesIDs = run != nil
        if let run {
            nextID = DeviceID(rawValue: 1 << 62 | UInt64(run) << 30 | 1)
            return
        }
        // Device ids grow with the time: each millisecond since 1970 has a million ids. For two centuries, these ids
        // fit into a signed 64-bit column of the store.
        if let date { nextID = DeviceID(rawValue: UInt64(max(0, date.milliseconds)) << 20 | 1) }
    }

    package var count: Int { byID.count }

    /// The number of bindings of a domain; `nil` if the domain's bindings are not counted.
    package func count(of domain: ByteString) -> Int? { countByDomain.isEmpty ? nil : countByDomain[domain] }

    /// From now on, counts the bindings of the given domains only. A new domain makes ``countBindings(of:)`` examine
    /// all bindings.
    package mutating func countBindings(of domains: Set<ByteString>) {
        let isNew = domains.contains { countByDomain[$0] == nil }
        countByDomain = Dictionary(uniqueKeysWithValues: domains.map { ($0, countByDomain[$0] ?? 0) })
        guard isNew, count > 0 else { return }
        for domain in domains { countByDomain[domain] = 0 }
        for slot in slots where !self[slot].isVacant { countByDomain[aor(at: slot).host]? += 1 }
    }

    /// The number of stored contacts whose push token can wake the device.
    package var pushCount: Int {
        countByProvider.indices.reduce(0) { sum, number in
            enabled.contains(number: UInt8(number)) ? sum + countByProvider[number] : sum
        }
    }

    /// The number of AORs that have a binding.
    package var addressCount: Int { byAOR.count }

    /// The earliest time at which ``removeExpired(limit:now:)`` can find an expired binding; `nil` if no binding can
    /// expire.
    @inlinable package var nextExpiry: Instant? { expiry.nextDeadline }

    /// Whether the AOR has a binding, which may have expired.
    package func isKnown(_ aor: AddressOfRecord) -> Bool { firstSlot(of: aor) != nil }

    /// Whether the AOR's last binding was removed lately, since the daemon started.
    package func wasKnown(_ aor: AddressOfRecord) -> Bool { departed.contains(aor) }

    /// Remembers an AOR whose binding had expired at the start and was not restored.
    mutating func noteDeparted(_ aor: AddressOfRecord) { departed.add(aor) }

    /// The valid bindings of an AOR, oldest first.
    package func bindings(for aor: AddressOfRecord, now: Instant) -> [Binding] {
        var found: [Binding] = []
        forEachSlot(of: aor) { slot in
            if isInForce(self[slot], now: now) { found.append(binding(at: slot)) }
        }
        return found
    }

    /// Whether the user has a device that is known only from a report over HTTP and can be reached only by pushes.
    package func hasReportedDevice(_ aor: AddressOfRecord) -> Bool {
        var isFound = false
        forEachSlot(of: aor) { slot in
            if self[slot].marks.contains(.isUnreachable) { isFound = true }
        }
        return isFound
    }

    /// The ids of all bindings of a user, valid or expired.
    package func ids(of aor: AddressOfRecord) -> [DeviceID] {
        var ids: [DeviceID] = []
        forEachSlot(of: aor) { ids.append(self[$0].id) }
        return ids
    }

    package func binding(_ id: DeviceID) -> Binding? { slot(of: id).map { binding(at: $0) } }

    package func flow(of id: DeviceID) -> Flow? { slot(of: id).map { flow(at: $0) } }

    /// The first binding of the AOR, valid or expired, for whose flow `isWanted` is true.
    package func device(of aor: AddressOfRecord, where isWanted: (Flow) -> Bool) -> DeviceID? {
        var slot = firstSlot(of: aor) ?? Self.noSlot
        while slot != Self.noSlot {
            if isWanted(flow(at: slot)) { return self[slot].id }
            slot = self[slot].next
        }
        return nil
    }

    /// Whether a push can wake the binding's device, so that the binding stays after its granted expiry (rules R7,
    /// R11).
    package func isPush(_ binding: Binding) -> Bool { enabled.contains(number: binding.provider) }

    /// Whether a push can wake the device. ``isPush(_:)`` copies no binding, for speed.
    package func isPush(_ id: DeviceID) -> Bool {
        slot(of: id).map { enabled.contains(number: self[$0].provider) } ?? false
    }

    func isInForce(_ record: BindingRecord, now: Instant) -> Bool {
        enabled.contains(number: record.provider) || now < record.freshUntil
    }

    package func isInForce(_ binding: Binding, now: Instant) -> Bool { isPush(binding) || now < binding.freshUntil }

    /// The store's row for a binding whose expiry, CSeq or Call-ID has changed.
    package func stored(_ id: DeviceID, userAgent: ByteString? = nil, now: Moment) -> StoredBinding? {
        binding(id).map { binding in
            StoredBinding(
                id: id, aor: binding.aor, contact: binding.contact, callID: binding.callID, cseq: binding.cseq,
                path: binding.path, flow: binding.flow, granted: binding.granted,
                freshUntil: now.date + (binding.freshUntil - now.instant), registeredAt: binding.registeredAt,
                isPush: binding.provider != 0, userAgent: userAgent, nonce: binding.nonce)
        }
    }

    /// Removes a binding, because its push token is dead or an operator removes it.
    ///
    /// - Returns: the change for the store; `nil` if the binding is gone, or a newer REGISTER of the binding is being
    ///   stored.
    package mutating func remove(_ id: DeviceID) -> BindingChange? {
        guard let slot = slot(of: id), !self[slot].marks.contains(.isBusy) else { return nil }
        let change = sharesIDs ? BindingChange.deleteContact(id, binding(at: slot).contact) : .delete(id)
        remove(slot: slot)
        return change
    }
}

// MARK: Slots

extension BindingTable {
    subscript(slot: UInt32) -> BindingRecord {
        _read { yield chunks[Int(slot / Self.chunkSize)][Int(slot % Self.chunkSize)] }
        _modify { yield &chunks[Int(slot / Self.chunkSize)][Int(slot % Self.chunkSize)] }
    }

    var slots: Range<UInt32> { 0..<slotCount }

    func slot(of id: DeviceID) -> UInt32? { byID.find(hash: Self.hash(id)) { self[$0].id == id } }

    func firstSlot(of aor: AddressOfRecord) -> UInt32? { firstSlot(of: aor, hash: Self.hash(aor)) }

    private func firstSlot(of aor: AddressOfRecord, hash: UInt32) -> UInt32? {
        byAOR.find(hash: hash) { isOf(aor, at: $0) }
    }

    func forEachSlot(of aor: AddressOfRecord, _ body: (UInt32) -> Void) {
        var slot = firstSlot(of: aor) ?? Self.noSlot
        while slot != Self.noSlot {
            body(slot)
            slot = self[slot].next
        }
    }

    /// Adds a binding at the end of the chain of its AOR.
    mutating func insert(_ record: BindingRecord, for aor: AddressOfRecord) {
        let id = record.id
        countByProvider[Int(record.provider)] += 1
        let slot = takeSlot(for: record)
        byID.insert(hash: Self.hash(id), slot: slot)
        indexConnection(of: slot)
        let hash = Self.hash(aor)
        if var last = firstSlot(of: aor, hash: hash) {
            while self[last].next != Self.noSlot { last = self[last].next }
            self[last].next = slot
        } else {
            byAOR.insert(hash: hash, slot: slot)
        }
        noteUsed(id)
        scheduleExpiry(of: slot)
        if !countByDomain.isEmpty { countByDomain[aor.host]? += 1 }
    }

    /// Makes the next id higher than the given id. The ids of other nodes do not change the next id, because two nodes
    /// would otherwise give the same id to two devices.
    mutating func noteUsed(_ id: DeviceID) {
        guard id >= nextID, !sharesIDs || id.rawValue >> 30 == nextID.rawValue >> 30 else { return }
        nextID = DeviceID(rawValue: id.rawValue &+ 1)
    }

    /// Replaces the record in a slot by a new record of the same device and AOR.
    mutating func replace(slot: UInt32, with record: consuming BindingRecord) {
        record.next = self[slot].next
        unindexConnection(of: slot)
        countByProvider[Int(self[slot].provider)] -= 1
        countByProvider[Int(record.provider)] += 1
        blocks.remove(self[slot].block)
        self[slot] = record
        indexConnection(of: slot)
        scheduleExpiry(of: slot)
    }

    /// Sets the expiry time of the binding in a slot to its granted expiry. A binding with push token gets no expiry
    /// time in the queue.
    mutating func scheduleExpiry(of slot: UInt32) {
        cancelExpiry(of: slot)
        if !enabled.contains(number: self[slot].provider) { scheduleExpiry(of: slot, at: self[slot].freshUntil) }
    }

    mutating func scheduleExpiry(of slot: UInt32, at instant: Instant) {
        while deadlines.count <= Int(slot) { deadlines.append(.none) }
        deadlines[Int(slot)] = expiry.schedule(slot, at: instant)
    }

    private mutating func cancelExpiry(of slot: UInt32) {
        guard Int(slot) < deadlines.count else { return }
        expiry.cancel(deadlines[Int(slot)])
        deadlines[Int(slot)] = .none
    }

    mutating func remove(slot: UInt32) {
        noteHeir(of: slot)
        let aor = aor(at: slot)
        if !countByDomain.isEmpty { countByDomain[aor.host]? -= 1 }
        let next = self[slot].next
        if let first = firstSlot(of: aor) {
            if first != slot {
                var before = first
                while self[before].next != slot, self[before].next != Self.noSlot { before = self[before].next }
                self[before].next = next
            } else if next == Self.noSlot {
                departed.add(aor)
                byAOR.remove(hash: Self.hash(aor), slot: slot)
            } else {
                byAOR.replace(hash: Self.hash(aor), slot: slot, with: next)
            }
        }
        byID.remove(hash: Self.hash(self[slot].id), slot: slot)
        unindexConnection(of: slot)
        cancelExpiry(of: slot)
        countByProvider[Int(self[slot].provider)] -= 1
        blocks.remove(self[slot].block)
        self[slot] = .vacant(next: freeSlot)
        freeSlot = slot
    }

    /// Handles the end of a stream connection. The contacts on the connection keep the peer's address, but requests can
    /// no longer be sent on the connection.
    package mutating func flowClosed(_ flow: Flow) {
        guard flow.isConnection else { return }
        for slot in byConnection.slots(hash: Self.hash(connection: flow.connection)) where self.flow(at: slot) == flow {
            unindexConnection(of: slot)
            setFlow(flow.closed, at: slot)
        }
    }

    private mutating func indexConnection(of slot: UInt32) {
        let flow = flow(at: slot)
        if flow.isConnection { byConnection.insert(hash: Self.hash(connection: flow.connection), slot: slot) }
    }

    private mutating func unindexConnection(of slot: UInt32) {
        let flow = flow(at: slot)
        if flow.isConnection { byConnection.remove(hash: Self.hash(connection: flow.connection), slot: slot) }
    }

    private mutating func takeSlot(for record: BindingRecord) -> UInt32 {
        if freeSlot != Self.noSlot {
            let slot = freeSlot
            freeSlot = self[slot].next
            self[slot] = record
            return slot
        }
        let slot = slotCount
        if slot % Self.chunkSize == 0 {
            var chunk: [BindingRecord] = []
            chunk.reserveCapacity(Int(Self.chunkSize))
            chunks.append(chunk)
        }
        chunks[chunks.count - 1].append(record)
        slotCount += 1
        return slot
    }

    private static func hash(_ aor: AddressOfRecord) -> UInt32 {
        var hasher = Hasher()
        hasher.combine(aor.user)
        hasher.combine(UInt8(0))
        hasher.combine(aor.host)
        return UInt32(truncatingIfNeeded: hasher.finalize())
    }

    /// A hash of a device's id. Mixing the bits is enough, because the daemon itself assigns the ids.
    private static func hash(_ id: DeviceID) -> UInt32 {
        UInt32(truncatingIfNeeded: (id.rawValue &* 0x9e37_79b9_7f4a_7c15) >> 32)
    }

    private static func hash(connection: UInt64) -> UInt32 {
        UInt32(truncatingIfNeeded: (connection &* 0x9e37_79b9_7f4a_7c15) >> 32)
    }
}
