package import Addressing
package import Registration
package import Timekeeping

/// The rules of all users who have rules, with the offsets of their time zones.
package struct UserRulesTable {
    private var rules: [AddressOfRecord: CallRules] = [:]
    private var zones: [String: ZoneOffsets] = [:]

    package init() {}

    package var isEmpty: Bool { rules.isEmpty }
    package var count: Int { rules.count }

    package subscript(aor: AddressOfRecord) -> CallRules? { rules[aor] }

    /// Sets the rules of a user; `zone` reads the offsets of a time zone.
    ///
    /// A time zone that the machine no longer has is treated as UTC.
    package mutating func set(_ new: CallRules, of aor: AddressOfRecord, zone: (String) -> ZoneOffsets?) {
        rules[aor] = new
        guard let name = new.doNotDisturb?.timeZone else { return }
        zones[name] = zone(name) ?? zones[name] ?? .utc
    }

    /// Removes the rules of a user, and returns whether the user had rules.
    package mutating func remove(_ aor: AddressOfRecord) -> Bool { rules.removeValue(forKey: aor) != nil }

    /// When the user's do-not-disturb ends; `nil` if the user's devices ring.
    package func silence(of aor: AddressOfRecord, at date: UnixTime) -> DoNotDisturb.End? {
        guard let rule = rules[aor]?.doNotDisturb else { return nil }
        return rule.end(at: date, in: zones[rule.timeZone] ?? .utc)
    }

    /// Replaces the id of a removed device in its user's rules.
    ///
    /// - Returns: the changed rules, for the store; `nil` if no rule names the device.
    package mutating func renamed(_ device: DeviceID, to successor: DeviceID, of aor: AddressOfRecord)
        -> StoredUserRules?
    {
        guard var own = rules[aor], own.renamed(device, to: successor) else { return nil }
        rules[aor] = own
        return StoredUserRules(aor: aor, rules: own)
    }
}
