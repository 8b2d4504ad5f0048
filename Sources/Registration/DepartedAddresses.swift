/// The users whose last contact has gone lately: where nobody has a password, nothing else tells them from users who never
/// were. A call to one is 480, to the other 404.
///
/// Takes a bounded place: of very many the older ones are forgotten first.
struct DepartedAddresses: Sendable {
    /// Hashes, so that a name takes no more than eight bytes, however long it is.
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
