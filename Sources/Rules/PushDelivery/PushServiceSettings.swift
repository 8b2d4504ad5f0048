package import Bytes
package import Settings

/// A push service: the settings of its folder, and the data that other code needs about it. A new service consists of
/// such a type and of a ``PushAppRules`` for its apps. docs/Modules.md says how to add a service.
package protocol PushServiceSettings: SettingsGroup, Equatable {
    /// The values of `pn-provider` for the service's tokens. A service with several environments has several values.
    static var providers: [PushProvider] { get }
    /// The platforms of the service's devices.
    static var platforms: Set<PushPlatform> { get }
    /// The names of the settings that assign tokens to an app, for messages to operators.
    static var tokenKeys: String { get }
    /// The names of the settings for an app's credentials, each with a full stop before it; empty if the apps have
    /// none.
    static var credentialKeys: String { get }

    var enabled: Bool { get }
    /// The enabled apps for tokens of a provider. The app without a name comes first.
    func apps(of provider: PushProvider) -> [PushAppSettings]
    /// The rules that decide which tokens are accepted.
    var acceptance: any TokenAcceptance { get }
    /// The files that the settings of the service's apps name.
    var files: [PushFile] { get }
    /// Warnings about settings that are questionable but not wrong, one line each.
    var notes: [String] { get }
}

extension PushServiceSettings {
    package static var tokenKeys: String { "the settings" }
    package static var credentialKeys: String { "" }
    package var notes: [String] { [] }
}

/// The platform on which an app runs.
package enum PushPlatform: Hashable, Sendable, CaseIterable {
    case apple, android, web
}

/// The settings of one app of a service.
package struct PushAppSettings {
    /// The name of the app; `nil` for the app of all tokens without an app name.
    let name: String?
    /// The values of `pn-param` that select this app.
    let params: [String]
    let rules: any PushAppRules

    init(named name: String? = nil, params: [String] = [], _ rules: any PushAppRules) {
        self.name = name
        self.params = params
        self.rules = rules
    }
}

/// Decides which tokens of one service belong to our apps. These rules are asked at each registration and each push.
package protocol TokenAcceptance: Sendable {
    /// The reason why none of our apps can push to the token; `nil` if an app can.
    func problem(with token: PushToken) -> TokenProblem?
    /// The app that the token's `pn-param` selects. `apps` are the apps, sorted by their values of `pn-param`.
    func app(of token: PushToken, in apps: [ByteString: PushApp.ID]) -> PushApp.ID?
}

extension TokenAcceptance {
    package func app(of token: PushToken, in apps: [ByteString: PushApp.ID]) -> PushApp.ID? { apps[token.param] }
}

/// A file that a service's settings name.
package enum PushFile: Hashable, Sendable {
    /// The file of a private key on the curve P-256 that signs tokens, and the name of the setting for it.
    case signingKey(String, key: String)
    /// The file of a client certificate, and the file of its private key if that is separate.
    case certificate(String, privateKey: String?)
    /// The file of the authorities that may issue the server's certificate.
    case authorities(String)
    case serviceAccount(String)
}

extension [PushFile] {
    /// Lists the files that are set.
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

extension PushServiceSettings {
    /// Warnings about apps that can get no devices, because another app has all their values of `pn-param` too.
    static func unreachable(
        _ apps: [(String, [String])], first: [String], _ group: String, _ key: String
    ) -> [String] {
        var notes: [String] = []
        var owners = Dictionary(first.map { ($0, group) }) { one, _ in one }
        for (name, params) in apps {
            let app = "\(group).apps.\(name)"
            if params.isEmpty { notes.append("\(app): without \(key) no device belongs to this app") }
            for param in params {
                if let other = owners.updateValue(app, forKey: param) {
                    notes.append(
                        "\(app): \(key): \(param) is in \(other), too; its devices belong to the last app that names it"
                    )
                }
            }
        }
        return notes
    }
}
