/// The users whose last contact was removed lately (departed users). A call to a departed user gets 480, and a call to
/// an unknown user gets 404. If phones need no passwords, nothing else shows whether a user without a contact exists.
///
/// If the set is full, its older half is dropped.
struct DepartedAddresses: Sendable {
    /// The hashes of departed users' AORs, eight bytes each.
    private var recent = Set<Int>()
    private var older = Set<Int>()

    private static let limit = 50_000

    func contains(_ aor: AddressOfRecord) -> Bool {
        let hash = aor.hashValue
        return recent.contains(hash) || older.contains(hash)
    }

    mutating func add(_ aor: AddressOfRecord) {
        if recent.count >= Self.limit {
            older = recent
            recent = []
        }
        recent.insert(aor.hashValue)
    }
}
