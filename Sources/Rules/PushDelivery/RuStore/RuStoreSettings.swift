import Bytes
package import Settings

/// The settings for the push service of the app store RuStore.
package struct RuStoreSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var projectID: String?
    package var serviceToken: Secret?
    package var payload = PayloadProfile.ecss10Extended
    package var afterEnd: AfterEnd?
    package var endpoint = "https://vkpns.rustore.ru"
    package var caFile: String?
    package var proxy: PushProxy?
    package var limits = ProviderLimits()
    package var apps: [String: RuStoreSettings] = [:]

    package init() {}

    package static let schema: [Setting<RuStoreSettings>] = [
        .enabled(\.enabled, pushesTo: "RuStore devices"),
        .string(
            "project-id", \.projectID, example: "my-project",
            "The identifier of the project in RuStore's console. Devices of the project's app register with this identifier as `pn-param`. If only one project is configured, the devices may omit `pn-param`."
        ),
        .secret(
            "service-token", \.serviceToken,
            "The project's service token, from RuStore's console. The daemon sends the service token with each push."
        ).taken(.atOnce),
        .payload(\.payload),
        .afterEnd(\.afterEnd, inviteCancelFor: "the payload `linphone`"),
        .string(
            "endpoint", \.endpoint, "The URL of RuStore's push server: scheme, host and port."),
        .authorities(\.caFile),
        .proxy(\.proxy),
        .group("limits", \.limits, "Limits of parallel requests to RuStore, for each project."),
        .variants(
            "apps", \.apps, exampleName: "second", exampleKeys: ["project-id", "service-token"],
            "Further projects. The settings of a project apply to devices whose `pn-param` is its `project-id`. Each project inherits the settings of `push.rustore`; set only the settings that differ."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard enabled else { return [] }
        var found: [SettingComplaint] = []
        if let projectID {
            if !ByteString(projectID).isRuStoreProject {
                found.append(
                    SettingComplaint("expected letters, digits, hyphen and underscore", key: "project-id"))
            }
        } else {
            found.append(SettingComplaint("expected project-id, since rustore is enabled", key: "enabled"))
        }
        if serviceToken == nil {
            found.append(SettingComplaint("expected service-token, since rustore is enabled", key: "enabled"))
        }
        return found
    }

    /// The URL of RuStore's push server, without a slash at its end.
    package var baseURL: String { endpoint.withoutTrailingSlash }
}
