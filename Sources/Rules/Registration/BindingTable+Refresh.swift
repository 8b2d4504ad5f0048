package import Addressing
package import Timekeeping

extension BindingTable {
    /// Finds push contacts whose granted time is nearly over, among some of the bindings. Their phones are then woken
    /// to register again (RFC 8599 section 5.5). Each contact is found once until it registers.
    ///
    /// - Parameters:
    ///   - cursor: moved behind the visited bindings. At the end of the table, the cursor restarts.
    ///   - count: the number of bindings to visit.
    ///   - lead: how long before its end a contact is found.
    ///   - now: the time.
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

    /// The number of slots that a walk through all bindings visits.
    package var walkLength: Int { slots.count }
}
