package import Settings

/// Which of Firebase's interfaces a server speaks (A27).
package enum FCMBodyFormat: String, Hashable, Sendable, CaseIterable {
    /// Today's HTTP v1 interface.
    case v1
    /// The old interface with a server key, exactly as in ECSS-10. Google has switched it off, but some gateways speak
    /// it.
    case legacy
}

/// Firebase Cloud Messaging.
package struct FCMSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var bodyFormat = FCMBodyFormat.v1
    package var payload = PayloadProfile.ecss10
    package var afterEnd: AfterEnd?
    package var params: [String] = []
    package var serviceAccountFile: String?
    package var projectID: String?
    package var serverKey: Secret?
    package var endpoint: String?
    package var tokenEndpoint: String?
    package var caFile: String?
    package var limits = PushLimits()
    package var apps: [String: FCMSettings] = [:]

    package init() {}

    package static let schema: [Setting<FCMSettings>] = [
        .bool(
            "enabled", \.enabled,
            "Whether Firebase devices are pushed. Switched off, their contacts become ordinary ones and expire."),
        .choice(
            "body-format", \.bodyFormat,
            "The interface to use: v1, or legacy for gateways that take the old messages of ECSS-10."),
        .choice(
            "payload", \.payload,
            "The messages that the app understands: ecss10, 10d (10darts), or linphone (as Flexisip writes them)."),
        .value(
            "after-end", \.afterEnd, .choice, example: "invite-cancel",
            "What a phone gets that was pushed for a call and has not come before its end: invite-cancel (if it is back within a minute, the INVITE and at once its CANCEL, so that an app that had to show a call learns how it ended), push (at once one that says so, for an app that knows it: docs/Providers.md), or none. Not set: invite-cancel with the payload linphone, else none."
        ),
        .list(
            "params", \.params, example: "[my-project, \"123456789012\"]",
            "The values of pn-param that mean this app besides the project's id: its number, whatever the app sends. Once any are listed, or beside further apps, others get 555."
        ),
        .path(
            "service-account-file", \.serviceAccountFile, example: "/etc/sippushd/firebase.json",
            "The service account's JSON file from Google; needed for v1."),
        .string(
            "project-id", \.projectID, example: "my-project", "The project, when it is not the service account's own."),
        .secret("server-key", \.serverKey, "The server key; for legacy."),
        .string(
            "endpoint", \.endpoint, example: "http://127.0.0.1:8080",
            "Another server instead of https://fcm.googleapis.com, for gateways and tests."),
        .string(
            "token-endpoint", \.tokenEndpoint, example: "http://127.0.0.1:8080/token",
            "Where access tokens come from, when it is not where the service account says."),
        .path("ca-file", \.caFile, example: "/etc/sippushd/ca.pem", "Certificate authorities for these servers, PEM."),
        .group("limits", \.limits, "How much is sent to Firebase at a time, for each app."),
        .variants(
            "apps", \.apps, exampleName: "second", exampleKeys: ["params", "service-account-file", "payload"],
            "Further apps, for devices whose pn-param is their project's id or one of their params. Each takes over what is set above; only what differs is written."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard enabled, bodyFormat == .v1, serviceAccountFile == nil else { return [] }
        return [SettingComplaint("expected service-account-file, since fcm is enabled with v1", key: "enabled")]
    }

    /// The server's URL, without a slash at its end.
    package var baseURL: String { (endpoint ?? "https://fcm.googleapis.com").withoutTrailingSlash }
}
