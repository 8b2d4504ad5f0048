/// Converts the HTTP status of an operator's own push server into an outcome, by the settings `accepted-status` and
/// `dead-status` of the server.
enum HTTPPushReason {
    static func outcome(
        of answer: ProviderAnswer, _ settings: HTTPPushAppSettings, _ retryAfter: Duration?, isProven: Bool
    ) -> PushOutcome {
        let status = answer.status
        let isAccepted =
            settings.acceptedStatus.isEmpty
            ? (200...299).contains(status) : settings.acceptedStatus.contains(status)
        if isAccepted { return .accepted(nil) }
        guard settings.deadStatus.contains(status) else { return .unexplained(status, nil, retryAfter) }
        // A wrong URL in the settings also causes 404. Therefore a 404 means a dead token only after the server has
        // accepted a push.
        if status == 404, !isProven { return .credentialsRefused("status 404, and no push was accepted yet") }
        return .tokenDead(since: nil)
    }
}
