package import Addressing
package import Timekeeping

/// Replaces the bindings of one user by the rows of the store, because another node may have changed the rows.
extension BindingTable {
    /// The changes of one adoption.
    package struct Adoption: Sendable {
        /// The bindings that are new or were registered later than this table knew, oldest first.
        package fileprivate(set) var returned: [DeviceID] = []
        package fileprivate(set) var removed: [Ended] = []
    }

    /// Replaces the bindings of a user by the rows that the store has just returned.
    ///
    /// The caller makes sure that no change of the user was ordered after the read. A binding keeps its open connection
    /// if the row names the same flow. A binding also keeps a refresh that the store does not have yet. The table gets
    /// the expired bindings `expiring`, so that it removes them like its own.
    package mutating func adopt(
        _ rows: [StoredBinding], of aor: AddressOfRecord, expiring: Set<DeviceID> = [], settings: RegistrarSettings,
        now: Moment
    ) -> Adoption {
        var adoption = Adoption()
        var present: [DeviceID] = []
        forEachSlot(of: aor) { present.append(self[$0].id) }
        let stored = Set(rows.lazy.map(\.id))
        for id in present where !stored.contains(id) {
            guard let slot = slot(of: id), !self[slot].marks.contains(.isBusy) else { continue }
            adoption.removed.append(ended(at: slot))
            remove(slot: slot)
        }
        for row in rows where row.aor == aor {
            if let slot = slot(of: row.id) {
                if adopt(row, at: slot, settings: settings, now: now) { adoption.returned.append(row.id) }
            } else if expiring.contains(row.id) {
                _ = restore(row, settings: settings, keepsExpired: true, now: now)
            } else if case .kept = restore(row, settings: settings, now: now) {
                adoption.returned.append(row.id)
            }
        }
        return adoption
    }

    /// Adopts the row of a binding that the table has.
    ///
    /// - Returns: whether the device has registered since the table learnt of the binding.
    private mutating func adopt(
        _ row: StoredBinding, at slot: UInt32, settings: RegistrarSettings, now: Moment
    ) -> Bool {
        let old = binding(at: slot)
        guard !old.marks.contains(.isBusy) else { return false }
        let isSameFlow = old.path == row.path && old.flow.closed == row.flow.closed
        if isSameFlow, old.contact == row.contact, old.registeredAt >= row.registeredAt { return false }
        guard let contact = RestoredContact(row, settings: settings),
            let record = makeRecord(
                row.id, contact.content(of: row, on: isSameFlow ? old.flow : row.flow.closed, now: now))
        else { return false }
        replace(slot: slot, with: record)
        return !isSameFlow || old.registeredAt < row.registeredAt
    }
}
