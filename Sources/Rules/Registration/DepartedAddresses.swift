/// The users whose last contact has gone lately. A call to one of them gets 480, a call to a user who never was gets
/// 404, and where users have no passwords nothing else tells them apart.
///
/// It takes a bounded place: if there are very many, the older ones are forgotten first.
struct DepartedAddresses: Sendable {
    /// The hashes of names, which take eight bytes however long the name is.
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
