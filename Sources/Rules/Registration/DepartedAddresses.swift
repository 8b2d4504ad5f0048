/// The users whose last contact was recently removed. A call to one of them gets 480, and a call to an unknown user
/// gets 404. Without passwords, only this list distinguishes them.
///
/// The list has a maximum size. If it is full, the older half is dropped.
struct DepartedAddresses: Sendable {
    /// Hashes of the users' names, eight bytes each.
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
