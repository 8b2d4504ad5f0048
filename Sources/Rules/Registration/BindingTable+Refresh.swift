package import Addressing
package import Timekeeping

extension BindingTable {
    /// Walks through some of the bindings, and finds push contacts whose granted time is nearly over, to ask their
    /// phones to register again (RFC 8599 section 5.5). Each contact is found once until it registers.
    ///
    /// - Parameters:
    ///   - cursor: advanced behind the visited bindings; at the end it restarts.
    ///   - count: how many bindings to visit.
    ///   - lead: how long before the end.
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

    /// The number of places in a walk through all bindings.
    package var walkLength: Int { slots.count }
}
