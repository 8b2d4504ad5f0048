package import Addressing
package import Timekeeping

extension BindingTable {
    /// Finds contacts with push token whose granted expiry is near, so that a refresh push makes their phones register
    /// again (RFC 8599 section 5.5). A found contact is not found again until its phone registers. Each call of
    /// ``dueForRefresh`` examines one part of the table.
    ///
    /// - Parameters:
    ///   - cursor: the slot at which the search begins; the search moves the cursor behind the examined slots, and back
    ///     to 0 at the end.
    ///   - count: the number of slots to examine.
    ///   - lead: how long before its granted expiry a contact is found.
    ///   - now: the present time.
    /// - Returns: the devices that need a refresh push.
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

    /// Lets ``dueForRefresh`` find a contact again, because another node has sent no refresh push yet, or may end.
    package mutating func forgetRefreshPush(to id: DeviceID) {
        if let slot = slot(of: id) { self[slot].marks.remove(.wasAskedToRefresh) }
    }

    /// The end of a contact's granted time, and the length of this time in seconds; `nil` if the contact is gone.
    package func grant(of id: DeviceID) -> (until: Instant, seconds: UInt32)? {
        slot(of: id).map { (self[$0].freshUntil, self[$0].granted) }
    }

    /// The number of slots that a scan of the whole table visits.
    package var scanLength: Int { slots.count }
}
