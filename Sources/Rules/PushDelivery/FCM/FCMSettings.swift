package import Settings

/// The FCM interface of a server (A27).
package enum FCMBodyFormat: String, Hashable, Sendable, CaseIterable {
    /// The server supports the current HTTP v1 interface.
    case v1
    /// The server supports FCM's legacy interface with a server key, exactly as in ECSS-10. Google has switched the
    /// legacy interface off, but some gateways still offer it.
    case legacy
}

/// Settings for Firebase Cloud Messaging.
package struct FCMSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var bodyFormat = FCMBodyFormat.v1
    package var payload: PayloadProfile?
    package var afterEnd: AfterEnd?
    package var params: [String] = []
    package var serviceAccountFile: String?
    package var projectID: String?
    package var serverKey: Secret?
    package var endpoint: String?
    package var tokenEndpoint: String?
    package var caFile: String?
    package var proxy: PushProxy?
    package var limits = ProviderLimits()
    package var apps: [String: FCMSettings] = [:]

    package init() {}

    package static let schema: [Setting<FCMSettings>] = [
        .enabled(\.enabled, pushesTo: "Firebase devices"),
        .choice(
            "body-format", \.bodyFormat,
            "The interface to Firebase: v1, or legacy for gateways that accept the legacy messages of ECSS-10."),
        .payload(
            \.payload,
            " By default, payload is `ecss10.extended`, which contains the caller, or `ecss10` if `body-format` is legacy."
        ),
        .afterEnd(\.afterEnd, inviteCancelFor: "the payload `linphone`"),
        .list(
            "params", \.params, example: "[my-project, \"123456789012\"]",
            "The values of `pn-param` for this app besides the project's id: the project's number, or another value that the app sends. If `params` is not empty, or further apps are configured, a REGISTER with another value gets 555."
        ),
        .path(
            "service-account-file", \.serviceAccountFile, example: "/etc/sippushd/firebase.json",
            "The JSON file of Google's service account; required for the body format v1."
        ).taken(.atOnce),
        .string(
            "project-id", \.projectID, example: "my-project",
            "The identifier of the Firebase project. By default, `project-id` is the project of the service account."),
        .secret("server-key", \.serverKey, "The Firebase server key, for the body format legacy.").taken(.atOnce),
        .string(
            "endpoint", \.endpoint, example: "http://127.0.0.1:8080",
            "The URL of a server to use instead of https://fcm.googleapis.com, for gateways and tests."),
        .string(
            "token-endpoint", \.tokenEndpoint, example: "http://127.0.0.1:8080/token",
            "The URL for access tokens. By default, `token-endpoint` is the URL in the service account."),
        .authorities(\.caFile, of: "the push server or the token server"),
        .proxy(\.proxy),
        .group("limits", \.limits, "Limits of parallel requests to Firebase, for each app."),
        .variants(
            "apps", \.apps, exampleName: "second", exampleKeys: ["params", "service-account-file", "payload"],
            "Further apps. The settings of an app apply to devices whose `pn-param` is the id of the app's project or an entry of `params`. Each app inherits the settings of `push.fcm`; set only the settings that differ."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard enabled, bodyFormat == .v1, serviceAccountFile == nil else { return [] }
        return [SettingComplaint("expected service-account-file, since fcm is enabled with v1", key: "enabled")]
    }

    /// The payload format of the app. By default, pushes contain the caller; over the legacy interface, pushes have the
    /// content of ECSS-10.
    package var profile: PayloadProfile { payload ?? (bodyFormat == .v1 ? .ecss10Extended : .ecss10) }

    /// The URL of the FCM server, without a trailing slash.
    package var baseURL: String { (endpoint ?? "https://fcm.googleapis.com").withoutTrailingSlash }
}
