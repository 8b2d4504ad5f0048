package import Bytes
package import Settings

/// A push service: the settings of its folder, and what everybody else must know of it. With a ``PushAppRules`` for its apps it is all
/// that a new service brings. docs/Modules.md says how to add one.
package protocol PushServiceSettings: SettingsGroup, Equatable {
    /// What `pn-provider` says of its tokens; several where the service has several environments.
    static var providers: [PushProvider] { get }
    /// What its devices are.
    static var platforms: Set<PushPlatform> { get }
    /// The keys of an app's settings that say which tokens are the app's, for operators.
    static var tokenKeys: String { get }
    /// The keys of an app's settings that hold its credentials, with a full stop before them; empty if it has none.
    static var credentialKeys: String { get }

    var enabled: Bool { get }
    /// The apps that are switched on, for tokens of that provider: first the one that has no name, if there is one.
    func apps(of provider: PushProvider) -> [PushAppSettings]
    /// Which tokens are taken.
    var acceptance: any TokenAcceptance { get }
    /// The files that the apps name.
    var files: [PushFile] { get }
    /// What is odd and stops nothing, a line each.
    var notes: [String] { get }
}

extension PushServiceSettings {
    package static var tokenKeys: String { "the settings" }
    package static var credentialKeys: String { "" }
    package var notes: [String] { [] }
}

/// Where an app runs.
package enum PushPlatform: Hashable, Sendable, CaseIterable {
    case apple, android, web
}

/// One app of a service.
package struct PushAppSettings {
    /// `nil` for the app of all tokens that name none.
    let name: String?
    /// The values of `pn-param` that mean this app.
    let params: [String]
    let rules: any PushAppRules

    init(named name: String? = nil, params: [String] = [], _ rules: any PushAppRules) {
        self.name = name
        self.params = params
        self.rules = rules
    }
}

/// Which tokens of one service are those of our apps. It is asked for each registration and each push.
package protocol TokenAcceptance: Sendable {
    /// Why the token cannot be pushed by one of our apps; `nil` when it may be.
    func problem(with token: PushToken) -> TokenProblem?
    /// The app that `pn-param` names, among the apps by their params.
    func app(of token: PushToken, in apps: [ByteString: PushApp.ID]) -> PushApp.ID?
}

extension TokenAcceptance {
    package func app(of token: PushToken, in apps: [ByteString: PushApp.ID]) -> PushApp.ID? { apps[token.param] }
}

/// A file that a service's settings name.
package enum PushFile: Hashable, Sendable {
    /// A private key on the curve P-256 that signs tokens, and the key of the settings.
    case signingKey(String, key: String)
    /// What we show when a connection is made, with its private key if that is in another file.
    case certificate(String, privateKey: String?)
    /// Whom the service's certificate must come from.
    case authorities(String)
    case serviceAccount(String)
}

extension [PushFile] {
    /// The files that are set.
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
    /// Apps that get no devices, because another app has each of their names too.
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
