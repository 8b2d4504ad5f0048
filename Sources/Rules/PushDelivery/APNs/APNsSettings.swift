package import Settings

/// How a badge is written into Apple payloads (A17).
package enum BadgeType: String, Hashable, Sendable, CaseIterable {
    /// `"10"`, as in the samples of ECSS-10. iOS itself ignores it, and the app reads the one in `acme`.
    case string
    /// `10`, which iOS shows on the app's icon.
    case number
}

/// How Apple treats a push to a remote token.
package enum RemotePushType: String, Hashable, Sendable, CaseIterable {
    /// Apple shows it or hands it to the app's extension, and wakes the phone at once.
    case alert
    /// It wakes the app for half a minute and shows nothing. Apple lets few of them through.
    case background
}

/// Which of Apple's two environments issued the tokens of `pn-provider=apns`. Those of `apns.dev` are always the
/// sandbox's.
package enum APNsEnvironment: String, Hashable, Sendable, CaseIterable {
    case production, sandbox

    package var url: String {
        switch self {
        case .production: "https://api.push.apple.com"
        case .sandbox: "https://api.sandbox.push.apple.com"
        }
    }
}

/// Apple Push Notification service.
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
    package var limits = PushLimits()
    package var feedback = FeedbackSettings()
    package var apps: [String: APNsSettings] = [:]

    package init() {}

    package static let schema: [Setting<APNsSettings>] = [
        .bool(
            "enabled", \.enabled,
            "Whether Apple devices are pushed. Switched off, their contacts become ordinary ones and expire."),
        .choice(
            "environment", \.environment,
            "Where the tokens of pn-provider=apns belong: production, or sandbox for builds from Xcode. Tokens of pn-provider=apns.dev always belong to the sandbox."
        ),
        .list(
            "topics", \.topics, example: "[com.example.phone]",
            "The app's bundle identifiers, without .voip. A device names one of them in pn-param; with one app and one identifier it need not. Any other gets 555. Empty: whatever pn-param says."
        ),
        .choice(
            "token-service", \.tokenService,
            "What a token is when the device does not say: remote, or voip for PushKit tokens."),
        .choice(
            "payload", \.payload,
            "The messages that the app understands: ecss10, 10d (10darts), or linphone (as Flexisip writes them)."),
        .value(
            "after-end", \.afterEnd, .choice, example: "invite-cancel",
            "What a phone gets that was pushed for a call and has not come before its end: invite-cancel (if it is back within a minute, the INVITE and at once its CANCEL, so that an app that had to show a call learns how it ended), push (at once one that says so, for an app that knows it: docs/Providers.md), or none. Not set: invite-cancel for VoIP tokens and with the payload linphone, else none."
        ),
        .choice(
            "remote-push-type", \.remotePushType,
            "How pushes to remote tokens are sent: alert, or background, which wakes the app without showing anything and which Apple delivers rarely."
        ),
        .choice(
            "badge-type", \.badgeType, "How the badge is written: string as ECSS-10 does, or number as iOS wants it."),
        .string("team-id", \.teamID, example: "DEF123GHIJ", "The team's ten characters."),
        .string("key-id", \.keyID, example: "ABC123DEFG", "The ten characters of the signing key."),
        .path(
            "key-file", \.keyFile, example: "/etc/sippushd/AuthKey_ABC123DEFG.p8",
            "The signing key from Apple, a .p8 file. It serves all apps of the team."),
        .path(
            "cert-file", \.certFile, example: "/etc/sippushd/apns-cert.pem",
            "Instead of a signing key: the app's push certificate, PEM."),
        .path(
            "cert-key-file", \.certKeyFile, example: "/etc/sippushd/apns-key.pem", "The certificate's private key, PEM."
        ),
        .string(
            "endpoint", \.endpoint, example: "https://127.0.0.1:8443",
            "Another server instead of the environment's, for tests."),
        .string(
            "sandbox-endpoint", \.sandboxEndpoint, example: "https://127.0.0.1:8443",
            "Another server for tokens of apns.dev; without it endpoint counts for them too."),
        .path("ca-file", \.caFile, example: "/etc/sippushd/ca.pem", "Certificate authorities for that server, PEM."),
        .group("limits", \.limits, "How much is sent to Apple at a time, for each app."),
        .group("feedback", \.feedback, "Apple's feedback service, or a server that speaks like it."),
        .variants(
            "apps", \.apps, exampleName: "second", exampleKeys: ["topics", "key-id", "key-file", "payload"],
            "Further apps, for devices whose pn-param names one of their topics. Each takes over what is set above; only what differs is written."
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
                    SettingComplaint("expected ten characters, A to Z and 0 to 9, as Apple writes them", key: $0.0)
                }
            }
            return [SettingComplaint("expected team-id and key-id beside it", key: "key-file")]
        case (nil, _?):
            guard certKeyFile == nil else { return [] }
            return [SettingComplaint("expected cert-key-file beside it", key: "cert-file")]
        }
    }

    private static func isIdentifier(_ text: String) -> Bool {
        text.utf8.count == 10 && text.utf8.allSatisfy { 48...57 ~= $0 || 65...90 ~= $0 }
    }

    /// The server's URL, without a slash at its end.
    package func url(of provider: PushProvider) -> String {
        let isSandbox = provider == .apnsDevelopment
        let other = isSandbox ? sandboxEndpoint ?? endpoint : endpoint
        return (other ?? (isSandbox ? APNsEnvironment.sandbox : environment).url).withoutTrailingSlash
    }
}

extension String {
    var withoutTrailingSlash: String { hasSuffix("/") ? String(dropLast()) : self }
}
