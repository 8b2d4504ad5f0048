import Registration
package import UserSources

/// Findings about the sources of users: whether they answer, and whether the PBX uses the realm of this daemon.
package enum UserFindings {
    private static let area = "users"

    /// - Parameters:
    ///   - facts: the answer of each source about a user who should not exist.
    ///   - realms: the realms for which this daemon challenges phones.
    ///   - asked: the realm of the upstream's challenge to the doctor's REGISTER; `nil` if the upstream sent no
    ///     challenge.
    /// - Returns: the findings.
    package static func findings(
        _ facts: [UserSourceFact], realms: [String], asked: String?
    ) -> [Finding] {
        guard !facts.isEmpty else { return [] }
        return facts.map(finding) + realm(realms, asked)
    }

    private static func finding(_ fact: UserSourceFact) -> Finding {
        let name = "users.sources.\(fact.name)"
        switch fact.answer {
        case nil:
            return Finding(
                area, .note, "\(name) cannot be asked here, because systemd passes its credential only to the service")
        case .unknown?: return Finding(area, .ok, "\(name) answers, and its columns can be used")
        case .found?, .unusable(.severalRows)?:
            return Finding(
                area, .wrong, "\(name) returns a user for a name that no user has",
                cure: "Compare :user with the name in the query, or let the HTTP server answer 404 for unknown users.")
        case .unusable(let fault)?, .away(let fault)?:
            return Finding(area, .wrong, "\(name): \(fault.sentence)", cure: fault.cure)
        }
    }

    /// Compares the realm of the PBX with the realms of this daemon, because a hash is valid for one realm only.
    private static func realm(_ realms: [String], _ asked: String?) -> [Finding] {
        let ours = realms.joined(separator: ", ")
        guard let asked else {
            return [
                Finding(area, .note, "phones are asked in realm \(ours), so hashes for other realms cannot be used")
            ]
        }
        guard !realms.contains(asked) else {
            return [Finding(area, .ok, "the PBX asks in realm \(asked), as this daemon does")]
        }
        return [
            Finding(
                area, .note, "the PBX asks in realm \(asked), and this daemon in \(ours)",
                cure: "If a source has hashes of the PBX, set digest.realm to \(asked). Passwords need no change.")
        ]
    }
}
