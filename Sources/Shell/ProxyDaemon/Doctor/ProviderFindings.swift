import PushDelivery
package import PushSending

/// Findings about the trial requests to push providers, and about this machine's clock.
package enum ProviderFindings {
    /// The clock error in seconds that providers tolerate.
    private static let tolerance: Int64 = 60

    package static func findings(_ results: [(app: String, result: TrialResult)]) -> [Finding] {
        guard !results.isEmpty else {
            return [
                Finding(
                    "providers", .note, "no push provider is enabled, so no phone is woken",
                    cure: "Set push.apns, push.fcm or another one: docs/Providers.md.")
            ]
        }
        return results.map { finding($0.app, $0.result) } + clock(results)
    }

    private static func finding(_ app: String, _ result: TrialResult) -> Finding {
        let area = "provider \(app)"
        return switch result.verdict {
        case .works: Finding(area, .ok, "it accepts the credentials")
        case .reached(let words): Finding(area, .ok, "its server answers; \(words)")
        case .refused(let reason, let cure): Finding(area, .wrong, "it refuses the credentials: \(reason)", cure: cure)
        case .failed(let reason, let cure): Finding(area, .wrong, "it was not reached: \(reason)", cure: cure)
        }
    }

    private static func clock(_ results: [(app: String, result: TrialResult)]) -> [Finding] {
        let leads = results.compactMap { app, result in result.clockLead.map { (app: app, seconds: $0) } }
        guard let worst = leads.max(by: { $0.seconds.magnitude < $1.seconds.magnitude }) else { return [] }
        guard worst.seconds.magnitude >= tolerance else {
            return [
                Finding("clock", .ok, "it differs by at most \(worst.seconds.magnitude) s from the providers' clocks")
            ]
        }
        let side = worst.seconds > 0 ? "ahead of" : "behind"
        return [
            Finding(
                "clock", .wrong, "it is \(worst.seconds.magnitude) s \(side) the clock of \(worst.app)",
                cure:
                    "Set the clock and keep it synchronized: timedatectl set-ntp true. Tokens are signed with this time."
            )
        ]
    }
}
