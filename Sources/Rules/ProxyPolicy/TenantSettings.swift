package import Settings

/// The settings of `tenants` for one domain. A setting that the tenant does not set has the daemon's general value.
package struct TenantSettings: SettingsGroup, Hashable {
    package var realm: String?
    package var upstream: NextHop?
    package var trusted: [TrustedPeer]?
    package var pushApps: [String]?
    /// The maximum number of the tenant's calls that wait at the same time; zero for no limit.
    package var calls = 0
    /// The maximum number of contacts of the tenant; zero for no limit.
    package var contacts = 0
    /// The maximum number of pushes per minute for the tenant's calls; zero for no limit.
    package var pushes = 0

    package init() {}

    package static let schema: [Setting<TenantSettings>] = [
        .string(
            "realm", \.realm, example: "asterisk",
            "The realm of the domain's users, such as the realm of the domain's PBX. Two tenants may have the same realm: their users remain separate. After a change of realm, set all passwords of the domain again. By default, the realm is `digest.realm`, or the domain if `digest.realm` is not set."
        ),
        .value(
            "upstream", \.upstream, NextHop.settingType, example: "sip:pbx.example.net:5060",
            "The destination of calls from this domain's phones. The PBX must also be a trusted peer of this domain, so that its calls reach the users. By default, the general setting `upstream` applies to the domain."
        ),
        .value(
            "trusted", \.trusted, .list(of: TrustedPeer.settingType), example: "[192.0.2.10]",
            "The trusted peers of this domain, which call only users of this domain. For a domain with its own setting `trusted`, the peers in the general setting `trusted` and the peers of all other domains are strangers. By default, the general setting `trusted` applies to the domain."
        ),
        .value(
            "push-apps", \.pushApps, .list(of: .string), example: "[example-ios, example-android]",
            "The names of push apps under `push`. Phones of this domain may register push tokens of these apps only. Phones of other domains cannot use these apps. By default, the phones of a tenant may register push tokens of all apps that no tenant lists."
        ),
        .integer(
            "calls", in: 0...10_000_000, \.calls,
            "The maximum number of calls that ring or wait at the same time for this domain's users or from its phones. When the domain has reached its limit of calls, a further call gets 503. With `0`, a tenant's calls have no limit except `limits.calls`."
        ),
        .integer(
            "contacts", in: 0...1_000_000_000, \.contacts,
            "The maximum number of stored contacts of this domain. A REGISTER for a further contact gets 403. The value `0` means that there is no limit."
        ),
        .integer(
            "pushes", in: 0...10_000_000, \.pushes,
            "The maximum number of pushes for calls to this domain's phones in a minute. The daemon holds a call without a push if a push would exceed the limit. The value `0` means that there is no limit."
        ),
    ]

    /// The example of a tenant's group in the sample settings file.
    package static let example: TenantSettings = {
        var settings = TenantSettings()
        settings.realm = "asterisk"
        settings.upstream = NextHop("sip:pbx.example.net:5060")
        settings.trusted = TrustedPeer("192.0.2.10").map { [$0] }
        return settings
    }()
}
