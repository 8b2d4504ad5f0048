import Bytes
package import Registration
package import Settings

/// The settings for bearer tokens, by which phones can authenticate without a password (RFC 8898).
package struct BearerSettings: SettingsGroup, Equatable {
    package var issuers: [String: BearerIssuerSettings] = [:]
    package var remembered = 100_000

    package init() {}

    package static let schema: [Setting<BearerSettings>] = [
        .named(
            "issuers", \.issuers, exampleName: "login",
            "The login servers whose tokens the daemon accepts from phones. A domain has at most one login server. Users of the domain can also use passwords. The daemon accepts tokens over TLS only. See docs/Bearer.md."
        ),
        .integer(
            "remember", in: 100...10_000_000, \.remembered,
            "How many valid tokens the daemon remembers, at about 300 bytes each. The daemon does not check the signature of a remembered token again. Set `users.remember` to at least the number of your phones."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        var owners: [String: String] = [:]
        for (name, issuer) in issuers.sorted(by: { $0.key < $1.key }) {
            for domain in issuer.domains.isEmpty ? ["*"] : issuer.domains.map({ $0.lowercased() }) {
                if let other = owners.updateValue(name, forKey: domain) {
                    let place = domain == "*" ? "all domains" : domain
                    return [
                        SettingComplaint("\(other) and \(name) both serve \(place): a domain has one", key: "issuers")
                    ]
                }
            }
        }
        if issuers.count > 1, let all = owners["*"] {
            return [
                SettingComplaint("\(all) serves all domains, so no other can serve one: set domains", key: "issuers")
            ]
        }
        return []
    }

    /// The rules for bearer tokens that the engine gets, with the issuers sorted by name.
    package var rules: BearerRules {
        var rules = BearerRules()
        rules.remembered = remembered
        rules.issuers = inOrder.map { name, settings in
            var issuer = BearerRules.Issuer(
                name: name, issuer: settings.issuer ?? "", audiences: settings.audience,
                server: ByteString(settings.authzServer ?? ""))
            issuer.domains = Set(settings.domains.map { ByteString($0.lowercased()) })
            issuer.claim = settings.claim
            issuer.algorithms = Set(settings.algorithms)
            issuer.leeway = settings.leeway
            issuer.scope = settings.scope.map { ByteString($0) }
            issuer.refresh = settings.refresh
            return issuer
        }
        return rules
    }

    package var inOrder: [(name: String, issuer: BearerIssuerSettings)] {
        issuers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}

/// The settings of one issuer of bearer tokens.
package struct BearerIssuerSettings: SettingsGroup, Equatable {
    package var domains: [String] = []
    package var issuer: String?
    package var audience: [String] = []
    package var keyFile: String?
    package var jwksURL: String?
    package var caFile: String?
    package var authzServer: String?
    package var scope: String?
    package var claim = "sub"
    package var algorithms: [BearerKey.Algorithm] = [.rs256, .es256]
    package var leeway: Duration = .seconds(30)
    package var refresh: Duration = .seconds(600)

    package init() {}

    package static let schema: [Setting<BearerIssuerSettings>] = [
        .list(
            "domains", \.domains, example: "[example.net]",
            "The domains whose users can register with tokens of this login server. With an empty list, the users of all domains can register with these tokens."
        ),
        .string(
            "issuer", \.issuer, example: "\"https://login.example.net/\"",
            "The value that the claim `iss` of each token must have, byte by byte. Copy the value from the login server's /.well-known/openid-configuration."
        ),
        .list(
            "audience", \.audience, example: "[sip.example.net]",
            "The accepted audiences. The claim `aud` of a token must name at least one of them. Give the daemon an audience of its own, so that phones cannot register with tokens for other services."
        ),
        .path(
            "key-file", \.keyFile, example: "/etc/sippushd/login.pem",
            "The file with the issuer's public keys: PEM, or a JSON Web Key Set. Set only one of `key-file` and `jwks-url`."
        ),
        .value(
            "jwks-url", \.jwksURL, keysURLType, example: "\"https://login.example.net/.well-known/jwks.json\"",
            "The URL of the issuer's JSON Web Key Set. The daemon reads the key set at its start, and again each time when the time in `refresh` has passed. When a token names an unknown key, the daemon reads the key set again, at most every 30 s. While the key set cannot be read, the daemon keeps the keys that it read last."
        ),
        .path(
            "ca-file", \.caFile, example: "/etc/sippushd/ca.pem",
            "The certificate authorities (PEM) that the daemon trusts for the server in `jwks-url`. By default, the daemon trusts the system's authorities."
        ),
        .value(
            "authz-server", \.authzServer, serverType, example: "\"https://login.example.net/\"",
            "The https URL of the server where phones get tokens. The daemon writes the URL into its challenges (`authz_server`)."
        ),
        .string(
            "scope", \.scope, example: "sip",
            "The OAuth scope of the tokens that phones need. The daemon writes the scope into its challenges. The daemon does not check the scope of a token; set `audience` to limit which tokens it accepts."
        ),
        .string(
            "claim", \.claim,
            "The claim of the token that contains the user's name: bob, or bob@example.net for a user of that domain. With a token, a phone can register only the user in the claim."
        ),
        .list(
            "algorithms", of: .choice, \.algorithms,
            "The signature algorithms that the daemon accepts: RS256, ES256. The daemon supports no other signature algorithms."
        ),
        .duration(
            "leeway", in: .seconds(0)...(.seconds(300)), \.leeway,
            "The maximum difference between the issuer's clock and the clock of this machine."),
        .duration(
            "refresh", in: .seconds(30)...(.seconds(86_400)), \.refresh,
            "How often the daemon reads the login server's public keys again. If the login server withdraws a key, the daemon accepts the key until it reads the keys again."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard let issuer, !issuer.isEmpty else { return [SettingComplaint("expected the claim iss", key: "issuer")] }
        guard !audience.isEmpty, !audience.contains("") else {
            return [SettingComplaint("needs at least one, and none may be empty", key: "audience")]
        }
        guard (keyFile == nil) != (jwksURL == nil) else {
            return [SettingComplaint("expected either key-file or jwks-url")]
        }
        guard authzServer != nil else { return [SettingComplaint("expected the URL for phones", key: "authz-server")] }
        guard !algorithms.isEmpty else { return [SettingComplaint("needs at least one", key: "algorithms")] }
        guard !claim.isEmpty else { return [SettingComplaint("expected the name of a claim", key: "claim")] }
        if let scope, !scope.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7f && $0 != 0x22 && $0 != 0x5c }) {
            return [SettingComplaint("expected words of ASCII without quotes", key: "scope")]
        }
        return []
    }

    /// The type of the setting `jwks-url`: an https URL, because an attacker on the network could replace keys over
    /// plain HTTP. The setting `jwks-url` may be a plain http URL only for this machine.
    private static let keysURLType = SettingType<String>.checked("URL") { text throws(SettingComplaint) in
        let isLocal = ["http://127.0.0.1", "http://localhost", "http://[::1]"].contains { place in
            text.hasPrefix(place) && [":", "/", nil].contains(text.dropFirst(place.count).first)
        }
        guard isLocal || isHTTPS(text) else {
            throw SettingComplaint("expected https://HOST/PATH, or http:// on this machine")
        }
    }

    private static let serverType = SettingType<String>.checked("https URL") { text throws(SettingComplaint) in
        guard isHTTPS(text) else { throw SettingComplaint("expected https://HOST/PATH") }
    }

    private static func isHTTPS(_ text: String) -> Bool {
        text.hasPrefix("https://") && text.count > 8
            && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !"\"\\#<>".utf8.contains($0) }
    }
}
