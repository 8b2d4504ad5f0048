package import Addressing
package import Timekeeping

extension BindingTable {
    /// Finds the push contacts whose granted time is nearly over, so that a refresh push wakes their phones to register
    /// again (RFC 8599 section 5.5). A contact that was found once is not found again until its phone registers.
    /// ``dueForRefresh`` visits one part of the table.
    ///
    /// - Parameters:
    ///   - cursor: the slot at which the visit begins; the visit moves it behind the visited slots, and restarts it at
    ///     the end of the table.
    ///   - count: the number of table slots to visit.
    ///   - lead: how long before the end of its granted time a contact is found.
    ///   - now: the present time.
    /// - Returns: the devices to wake.
    package mutating func dueForRefresh(
        from cursor: inout UInt32, count: Int, lead: Duration, now: Instant
    ) -> [DeviceID] {
        var due: [DeviceID] = []
        if cursor >= slots.upperBound { cursor = 0 }
        let end = UInt32(clamping: min(Int(cursor) + count, slots.count))
        for slot in cursor..<max(cursor, end) {
            let record = self[slot]
            guard !record.isVacant, enabled.contains(number: record.provider), record.freshUntil > now,
                record.freshUntil - now <= lead,
                record.marks.isDisjoint(with: [.isBusy, .isUnreachable, .wasAskedToRefresh])
            else { continue }
            self[slot].marks.insert(.wasAskedToRefresh)
            due.append(record.id)
        }
        cursor = end
        return due
    }

    /// The number of slots that a walk through the whole table visits.
    package var walkLength: Int { slots.count }
}
