package import Settings

/// The settings of `register-upstream` for one domain; the daemon keeps the domain's users registered at a PBX.
package struct UpstreamRegistrationSettings: SettingsGroup, Hashable {
    package var upstream: NextHop?
    package var expires: Duration = .seconds(3600)
    package var rate = 50
    package var keepFor: Duration = .seconds(30 * 86_400)
    package var path = false

    package init() {}

    package static let schema: [Setting<UpstreamRegistrationSettings>] = [
        .value(
            "upstream", \.upstream, NextHop.settingType, example: "sip:pbx.example.net:5060",
            "The PBX that owns the users' passwords, as a SIP URI. List the PBX in the setting `trusted` too, so that calls of the PBX reach the users."
        ),
        .duration(
            "expires", in: .seconds(60) ... .seconds(604_800), \.expires,
            "The time for which the daemon registers each user. The daemon renews each user's registration at the PBX after 50 to 80 % of the time that the PBX grants."
        ),
        .integer(
            "rate", in: 1...10_000, \.rate,
            "The maximum number of REGISTERs a second that the daemon sends to the PBX. The daemon first registers users who were called within the last week."
        ),
        .duration(
            "keep-for", in: .seconds(3600) ... .seconds(366 * 86_400), \.keepFor,
            "How long the daemon keeps a user registered at the PBX after the last REGISTER of the user's phones to the daemon."
        ),
        .bool(
            "path", \.path,
            "Add the header fields `Supported: path` and `Path` to each REGISTER to the PBX (RFC 3327). `Path` contains the daemon's address. Set `path` to `true` only for a PBX that reaches its users by `Path`."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        upstream == nil ? [SettingComplaint("expected the SIP URI of the PBX", key: "upstream")] : []
    }

    /// The example of a domain's group under `register-upstream` in the sample settings file.
    package static let example: UpstreamRegistrationSettings = {
        var settings = UpstreamRegistrationSettings()
        settings.upstream = NextHop("sip:pbx.example.net:5060")
        return settings
    }()
}
