import Bytes
package import Settings

/// How Huawei's phones present a push.
package enum HMSStyle: String, Hashable, Sendable, CaseIterable {
    /// The push goes to the app's code, which shows the call.
    case data
    /// The phone's system shows a text, even if battery rules hold the app back. The app starts when the user touches
    /// the text.
    case notification
}

/// The urgency of pushes about calls.
package enum HMSUrgency: String, Hashable, Sendable, CaseIterable {
    case high, normal
}

/// The settings for Huawei's Push Kit, for Android phones with HMS Core.
package struct HMSSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var appID: String?
    package var clientSecret: Secret?
    package var payload = PayloadProfile.ecss10Extended
    package var style = HMSStyle.data
    package var urgency = HMSUrgency.high
    package var category = "VOIP"
    package var afterEnd: AfterEnd?
    package var endpoint = "https://push-api.cloud.huawei.com"
    package var tokenEndpoint = "https://oauth-login.cloud.huawei.com/oauth2/v3/token"
    package var caFile: String?
    package var proxy: PushProxy?
    package var limits = ProviderLimits()
    package var apps: [String: HMSSettings] = [:]

    package init() {}

    package static let schema: [Setting<HMSSettings>] = [
        .enabled(\.enabled, pushesTo: "Huawei devices with HMS Core"),
        .string(
            "app-id", \.appID, example: "\"100123456\"",
            "The app's id in AppGallery Connect, which is also the OAuth client id. Devices of the app register with this id as `pn-param`. If only one app is configured, the devices may omit `pn-param`."
        ),
        .secret(
            "client-secret", \.clientSecret,
            "The app's client secret, from AppGallery Connect. With `app-id` and `client-secret`, the daemon gets an access token, which it sends with each push."
        ).taken(.atOnce),
        .payload(\.payload),
        .choice(
            "style", \.style,
            "How phones present a push. With `data`, the push goes to the app's code. With `notification`, the phone's system shows a text, even if battery rules hold the app back. The app then starts when the user touches the text. Set `style` to `notification` if phones whose app was closed do not wake."
        ),
        .choice(
            "urgency", \.urgency,
            "The urgency of pushes about calls: `high` or `normal`. Huawei must approve high urgency for the app. Without Huawei's approval, set `urgency` to `normal`."
        ),
        .value(
            "category", \.category, categoryType,
            "The category of pushes about calls, such as `VOIP`. Huawei does not delay pushes of the category `VOIP` while a phone sleeps. Huawei must grant the app the right to classify its messages. Without Huawei's grant, set `category` to an empty text."
        ),
        .afterEnd(\.afterEnd, inviteCancelFor: "the payload `linphone`"),
        .string(
            "endpoint", \.endpoint,
            "The URL of Huawei's push server: scheme, host and port. Older apps use https://api.push.hicloud.com."),
        .string(
            "token-endpoint", \.tokenEndpoint,
            "The URL of Huawei's token service. Older apps use https://login.cloud.huawei.com/oauth2/v3/token."),
        .authorities(\.caFile, of: "the push server and the token service"),
        .proxy(\.proxy),
        .group("limits", \.limits, "Limits of parallel requests to Huawei, for each app."),
        .variants(
            "apps", \.apps, exampleName: "second", exampleKeys: ["app-id", "client-secret"],
            "Further apps. The settings of an app apply to devices whose `pn-param` is its `app-id`. Each app inherits the settings of `push.hms`; set only the settings that differ."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard enabled else { return [] }
        var found: [SettingComplaint] = []
        if let appID {
            if !ByteString(appID).isHMSApp {
                found.append(SettingComplaint("expected letters, digits and hyphen", key: "app-id"))
            }
        } else {
            found.append(SettingComplaint("expected app-id, since hms is enabled", key: "enabled"))
        }
        if clientSecret == nil {
            found.append(SettingComplaint("expected client-secret, since hms is enabled", key: "enabled"))
        }
        return found
    }

    /// A category of Huawei, or an empty text.
    private static let categoryType = SettingType<String>.checked("text") { text throws(SettingComplaint) in
        guard text.utf8.allSatisfy({ (0x41...0x5a).contains($0) || $0 == UInt8(ascii: "_") }) else {
            throw SettingComplaint("expected capital letters and underscore, or an empty text")
        }
    }

    /// The URL of Huawei's push server, without a slash at its end.
    package var baseURL: String { endpoint.withoutTrailingSlash }
}
