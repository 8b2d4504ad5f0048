package import Bytes
package import Settings

/// The settings of one push provider, and the facts about the provider that other code needs. A new push provider needs
/// a type with the protocol ``PushServiceSettings``, and ``PushAppRules`` for its apps; docs/Modules.md says how to add
/// one.
package protocol PushServiceSettings: SettingsGroup, Equatable {
    /// The values of `pn-provider` for the service's tokens. A service with several environments has several values of
    /// `pn-provider`.
    static var providers: [PushProvider] { get }
    /// The platforms on which the apps of the service run.
    static var platforms: Set<PushPlatform> { get }
    /// The names of the settings that decide to which app a token belongs, for messages to operators.
    static var tokenKeys: String { get }
    /// The setting names for an app's credentials, as text that begins with a full stop; empty if apps need no
    /// credentials.
    static var credentialKeys: String { get }
    /// The name of the app for push servers that phones choose; `nil` if the settings name all servers of the service.
    static var chosenHostsApp: String? { get }

    var enabled: Bool { get }
    /// The enabled apps for tokens with the given provider. The app without a name is the first app in the list.
    func apps(of provider: PushProvider) -> [PushAppSettings]
    /// The rules that decide which push tokens belong to an app in the settings.
    var acceptance: any TokenAcceptance { get }
    /// The files whose paths are in the settings of the service.
    var files: [PushFile] { get }
    /// Warnings about settings that are valid but probably not intended, one line each.
    var notes: [String] { get }
}

extension PushServiceSettings {
    package static var tokenKeys: String { "the settings" }
    package static var credentialKeys: String { "" }
    package static var chosenHostsApp: String? { nil }
    package var notes: [String] { [] }
}

/// The platform on which an app runs.
package enum PushPlatform: Hashable, Sendable, CaseIterable {
    case apple, android, web
}

/// One app of a push service, as the settings describe it.
package struct PushAppSettings {
    /// The name of the app; `nil` for the app that gets all tokens whose app has no name.
    let name: String?
    /// The values of `pn-param` that select the app.
    let params: [String]
    let rules: any PushAppRules

    init(named name: String? = nil, params: [String] = [], _ rules: any PushAppRules) {
        self.name = name
        self.params = params
        self.rules = rules
    }
}

/// Decides which push tokens of one service belong to an app in the settings. The rules of a push service are applied
/// at each registration and each push.
package protocol TokenAcceptance: Sendable {
    /// Why no app in the settings can push to the token; `nil` if an app can push to the token.
    func problem(with token: PushToken) -> TokenProblem?
    /// The app that the token's `pn-param` selects; the parameter `apps` maps each value of `pn-param` to its app.
    func app(of token: PushToken, in apps: [ByteString: PushApp.ID]) -> PushApp.ID?
    /// The server that the token's phone has chosen; `nil` if the settings name the server of the token.
    func chosenHost(of token: PushToken) -> String?
}

extension TokenAcceptance {
    package func app(of token: PushToken, in apps: [ByteString: PushApp.ID]) -> PushApp.ID? { apps[token.param] }
    package func chosenHost(of token: PushToken) -> String? { nil }
}

/// A file whose path is in the settings of a push service.
package enum PushFile: Hashable, Sendable {
    /// The file of a private P-256 key that signs tokens; `key` is the name of the setting with the path.
    case signingKey(String, key: String)
    /// The file of a client certificate, and the file of its private key if the key has its own file.
    case certificate(String, privateKey: String?)
    /// The file of the certificate authorities that are trusted for the push server's certificate.
    case authorities(String)
    case serviceAccount(String)
}

extension [PushFile] {
    /// The given files of a push service, without paths that are `nil`.
    static func named(
        signingKey: (String?, key: String) = (nil, key: ""), certificate: String? = nil, privateKey: String? = nil,
        account: String? = nil, authorities: String? = nil
    ) -> [PushFile] {
        [
            signingKey.0.map { .signingKey($0, key: signingKey.key) },
            certificate.map { .certificate($0, privateKey: privateKey) }, account.map { .serviceAccount($0) },
            authorities.map { .authorities($0) },
        ].compactMap(\.self)
    }
}
