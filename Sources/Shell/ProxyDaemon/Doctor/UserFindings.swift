import Registration
package import UserSources

/// Whether the sources of users answer, and whether their hashes are for the realm in which phones are asked.
package enum UserFindings {
    private static let area = "users"

    /// - Parameters:
    ///   - facts: the answer of each source about a user whom nobody has.
    ///   - realms: the realms in which this daemon asks phones.
    ///   - asked: the realm in which the upstream asks for passwords; `nil` if it asked for none.
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
        case nil: return Finding(area, .note, "\(name) cannot be asked until systemd has started the unit")
        case .unknown?: return Finding(area, .ok, "\(name) answers, and its columns can be used")
        case .found?, .unusable(.severalRows)?:
            return Finding(
                area, .wrong, "\(name) has an answer for a user whom nobody has",
                cure: "Let the query compare :user with the name, or let the server answer 404 for unknown users.")
        case .unusable(let fault)?, .away(let fault)?:
            return Finding(area, .wrong, "\(name): \(fault.sentence)", cure: fault.cure)
        }
    }

    /// A hash serves one realm alone. PBXs often use another one than their domain.
    private static func realm(_ realms: [String], _ asked: String?) -> [Finding] {
        let ours = realms.joined(separator: ", ")
        guard let asked else {
            return [Finding(area, .note, "phones are asked in realm \(ours); hashes of other realms cannot be used")]
        }
        guard !realms.contains(asked) else {
            return [Finding(area, .ok, "the PBX asks in realm \(asked), as this daemon does")]
        }
        return [
            Finding(
                area, .note, "the PBX asks in realm \(asked), and this daemon in \(ours)",
                cure: "If a source has hashes of the PBX, set digest.realm to \(asked). Passwords serve any realm.")
        ]
    }
}
