package import Settings

/// The form of the badge in payloads for Apple (A17).
package enum BadgeType: String, Hashable, Sendable, CaseIterable {
    /// The badge is a string such as `"10"`, as in ECSS-10's samples; iOS ignores the string, and the app reads the
    /// number in `acme`.
    case string
    /// The badge is a number such as `10`, which iOS shows on the app's icon.
    case number
}

/// The value of `apns-push-type` for pushes to a remote token. iOS treats a push by this value.
package enum RemotePushType: String, Hashable, Sendable, CaseIterable {
    /// iOS shows the push as a notification or passes the push to the app's extension, and the phone wakes immediately.
    case alert
    /// iOS wakes the app for half a minute and shows no notification. Apple limits the rate of background pushes.
    case background
}

/// Apple's environment for tokens with `pn-provider=apns`; tokens with `apns.dev` always belong to the sandbox.
package enum APNsEnvironment: String, Hashable, Sendable, CaseIterable {
    case production, sandbox

    package var url: String {
        switch self {
        case .production: "https://api.push.apple.com"
        case .sandbox: "https://api.sandbox.push.apple.com"
        }
    }
}

/// Settings for the Apple Push Notification service.
package struct APNsSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var environment = APNsEnvironment.production
    package var topics: [String] = []
    package var tokenService = APNsToken.Service.remote
    package var payload = PayloadProfile.ecss10
    package var afterEnd: AfterEnd?
    package var remotePushType = RemotePushType.alert
    package var badgeType = BadgeType.string
    package var teamID: String?
    package var keyID: String?
    package var keyFile: String?
    package var certFile: String?
    package var certKeyFile: String?
    package var endpoint: String?
    package var sandboxEndpoint: String?
    package var caFile: String?
    package var proxy: PushProxy?
    package var limits = ProviderLimits()
    package var feedback = FeedbackSettings()
    package var apps: [String: APNsSettings] = [:]

    package init() {}

    package static let schema: [Setting<APNsSettings>] = [
        .enabled(\.enabled, pushesTo: "Apple devices"),
        .choice(
            "environment", \.environment,
            "Apple's environment for tokens with `pn-provider=apns`: `production`, or `sandbox` for builds from Xcode. Tokens with `pn-provider=apns.dev` always belong to the sandbox."
        ),
        .list(
            "topics", \.topics, example: "[com.example.phone]",
            "The app's bundle identifiers, without .voip. A device must name one of the listed identifiers in `pn-param`, otherwise its REGISTER gets 555. If only one app with one identifier is configured, the device may omit `pn-param`. With an empty list, the daemon accepts any bundle identifier in `pn-param`."
        ),
        .choice(
            "token-service", \.tokenService,
            "The kind of push token for devices whose `pn-param` does not name the kind: `remote`, or `voip` for PushKit tokens."
        ),
        .payload(\.payload),
        .afterEnd(\.afterEnd, inviteCancelFor: "VoIP tokens and the payload `linphone`"),
        .choice(
            "remote-push-type", \.remotePushType,
            "The push type (`apns-push-type`) of pushes for calls and missed calls to a device's remote token. With `alert`, iOS shows a notification. With `background`, iOS wakes the app and shows nothing; Apple delivers only a few such pushes an hour."
        ),
        .choice(
            "badge-type", \.badgeType, "The JSON type of the badge: string as in ECSS-10, or number as iOS expects."),
        .string("team-id", \.teamID, example: "DEF123GHIJ", "The team identifier, ten characters.").taken(.atOnce),
        .string("key-id", \.keyID, example: "ABC123DEFG", "The identifier of the signing key, ten characters.").taken(
            .atOnce),
        .path(
            "key-file", \.keyFile, example: "/etc/sippushd/AuthKey_ABC123DEFG.p8",
            "The signing key from Apple, a .p8 file. One signing key is valid for all apps of the team."
        ).taken(.atOnce),
        .path(
            "cert-file", \.certFile, example: "/etc/sippushd/apns-cert.pem",
            "The app's push certificate, PEM, instead of a signing key."
        ).taken(.atOnce),
        .path(
            "cert-key-file", \.certKeyFile, example: "/etc/sippushd/apns-key.pem", "The certificate's private key, PEM."
        ).taken(.atOnce),
        .string(
            "endpoint", \.endpoint, example: "https://127.0.0.1:8443",
            "The URL of a server to use instead of Apple's server for the environment, for tests."),
        .string(
            "sandbox-endpoint", \.sandboxEndpoint, example: "https://127.0.0.1:8443",
            "The URL of a server to use for tokens with `pn-provider=apns.dev`, for tests. By default, `sandbox-endpoint` is the URL in `push.apns.endpoint`."
        ),
        .authorities(\.caFile),
        .proxy(\.proxy),
        .group("limits", \.limits, "Limits of parallel requests to Apple, for each app."),
        .group("feedback", \.feedback, "Apple's feedback service, or a compatible server."),
        .variants(
            "apps", \.apps, exampleName: "second", exampleKeys: ["topics", "key-id", "key-file", "payload"],
            "Further apps. The settings of an app apply to devices whose `pn-param` names one of the app's topics. Each app inherits the settings of `push.apns`; set only the settings that differ."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard enabled else { return [] }
        switch (keyFile, certFile) {
        case (nil, nil):
            return [SettingComplaint("expected key-file or cert-file, since apns is enabled", key: "enabled")]
        case (_?, _?):
            return [SettingComplaint("expected either key-file or cert-file, found both", key: "cert-file")]
        case (_?, nil):
            guard teamID == nil || keyID == nil else {
                return [("team-id", teamID), ("key-id", keyID)].filter { !Self.isIdentifier($0.1 ?? "") }.map {
                    SettingComplaint("expected ten characters, A to Z and 0 to 9", key: $0.0)
                }
            }
            return [SettingComplaint("expected team-id and key-id as well", key: "key-file")]
        case (nil, _?):
            guard certKeyFile == nil else { return [] }
            return [SettingComplaint("expected cert-key-file as well", key: "cert-file")]
        }
    }

    private static func isIdentifier(_ text: String) -> Bool {
        text.utf8.count == 10 && text.utf8.allSatisfy { 48...57 ~= $0 || 65...90 ~= $0 }
    }

    /// The URL of Apple's server, without a trailing slash.
    package func url(of provider: PushProvider) -> String {
        let isSandbox = provider == .apnsDevelopment
        let other = isSandbox ? sandboxEndpoint ?? endpoint : endpoint
        return (other ?? (isSandbox ? APNsEnvironment.sandbox : environment).url).withoutTrailingSlash
    }
}

extension String {
    var withoutTrailingSlash: String { hasSuffix("/") ? String(dropLast()) : self }
}
