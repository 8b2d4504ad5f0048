package import Control

/// Findings of `sippushd doctor` about the PBXs at which the running daemon keeps users registered.
package enum PBXFindings {
    private static let area = "pbx"

    package static func findings(_ domains: [UpstreamDomainReport]) -> [Finding] { domains.flatMap(findings) }

    private static func findings(_ domain: UpstreamDomainReport) -> [Finding] {
        let place = "\(domain.domain) at \(domain.pbx)"
        var found: [Finding] = []
        switch domain.isUp {
        case true?:
            found.append(
                Finding(
                    area, .ok, "\(place): it answers; \(domain.registered) users are registered, \(domain.waiting) wait"
                ))
        case false?:
            found.append(
                Finding(
                    area, .wrong, "\(place): it does not answer; \(domain.waiting) users wait for it",
                    cure: "Is the PBX running, and does a firewall let packets through both ways?"))
        case nil:
            found.append(
                Finding(area, .note, "\(place): it has not answered yet", cure: "Run doctor again in a minute."))
        }
        return found + realm(domain, place) + refused(domain, place) + credence(domain, place)
    }

    private static func realm(_ domain: UpstreamDomainReport, _ place: String) -> [Finding] {
        guard let asked = domain.askedRealm else { return [] }
        guard asked != domain.realm else {
            return [Finding(area, .ok, "\(place): it asks for passwords in the realm \(asked), as the daemon does")]
        }
        return [
            Finding(
                area, .wrong,
                "\(place): it asks for passwords in the realm \(asked), and the daemon's passwords are for \(domain.realm)",
                cure: "Set digest.realm to \(asked), and set the passwords again: sippushd user passwd")
        ]
    }

    private static func refused(_ domain: UpstreamDomainReport, _ place: String) -> [Finding] {
        guard domain.refused > 0 else { return [] }
        let first = domain.examples.map { user in "\(user.aor): \(user.reason ?? "unknown")" }
        return [
            Finding(
                area, .wrong, "\(place): \(domain.refused) users are not registered: \(first.joined(separator: "; "))",
                cure: "sippushd upstream show USER@DOMAIN says what to do for each.")
        ]
    }

    private static func credence(_ domain: UpstreamDomainReport, _ place: String) -> [Finding] {
        guard domain.credence == "takes-our-word" else { return [] }
        return [
            Finding(
                area, .note,
                "\(place): it accepts calls from the daemon's address without a password, so the daemon asks the phones for it",
                cure:
                    "Nothing to do. To let the PBX ask, remove the daemon's address from its trunks or identify sections."
            )
        ]
    }
}
