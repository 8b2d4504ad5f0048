/// The users whose last contact was removed lately. A call to a user whose contact expired lately gets 480, and a call
/// to an unknown user gets 404. If users have no passwords, only the list of departed users shows whether a user
/// without a contact exists.
///
/// The list ``DepartedAddresses`` has a maximum size. If the list of departed users is full, its older half is dropped.
struct DepartedAddresses: Sendable {
    /// The hashes of the AORs of users whose last contact was removed lately. Each hash of an AOR needs eight bytes.
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
