import Registration
package import UserSources

/// Findings of `sippushd doctor` about the keys for bearer tokens: whether the keys can be read, and which keys exist.
package enum KeyFindings {
    private static let area = "tokens"

    package static func findings(_ facts: [KeyFact], hasTLS: Bool) -> [Finding] {
        guard !facts.isEmpty else { return [] }
        var found = facts.map(finding)
        if !hasTLS {
            found.append(
                Finding(
                    area, .wrong, "bearer: tokens are accepted over TLS only, and listen has no tls or wss address",
                    cure: "Add a tls or wss address under listen."))
        }
        return found
    }

    private static func finding(_ fact: KeyFact) -> Finding {
        let name = "bearer.issuers.\(fact.name)"
        switch fact.keys {
        case nil: return Finding(area, .note, "\(name): the keys are not here until systemd has started the unit")
        case .success(let keys)?:
            return Finding(area, .ok, "\(name): read \(keys.count) of its keys: \(keys.joined(separator: ", "))")
        case .failure(let fault)?: return Finding(area, .wrong, "\(name): \(fault.sentence)", cure: fault.cure)
        }
    }
}
