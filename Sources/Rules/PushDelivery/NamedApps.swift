import Bytes

/// The settings of a push service that can have several apps, each with its own credentials. Each further app has a name
/// and inherits the settings of the first app.
package protocol NamedApps: PushServiceSettings {
    /// The name of the service's group of settings, such as `push.fcm`.
    static var group: String { get }
    /// The name of the setting with the values of ``params``.
    static var paramKey: String { get }

    /// The further apps by their names, with and without the disabled ones.
    var apps: [String: Self] { get }
    /// The values of `pn-param` that the app's own settings name.
    var params: [String] { get }
    /// The values of `pn-param` that select the app.
    var allParams: [String] { get }
    /// The files whose paths are in the app's own settings.
    var ownFiles: [PushFile] { get }
    /// Makes the rules of the app.
    func rules(of provider: PushProvider) -> any PushAppRules
}

extension NamedApps {
    package var allParams: [String] { params }

    package func apps(of provider: PushProvider) -> [PushAppSettings] {
        [PushAppSettings(params: allParams, rules(of: provider))]
            + otherApps.map {
                PushAppSettings(named: $0.key, params: $0.value.allParams, $0.value.rules(of: provider))
            }
    }

    package var files: [PushFile] { enabledApps.flatMap(\.ownFiles) }
    package var notes: [String] { unreachableApps }

    /// Warnings about apps that no device can use, because another app has all their values of `pn-param`.
    var unreachableApps: [String] {
        var notes: [String] = []
        var owners = Dictionary(params.map { ($0, Self.group) }) { one, _ in one }
        for (name, settings) in otherApps {
            let app = "\(Self.group).apps.\(name)"
            if settings.params.isEmpty {
                notes.append("\(app): without \(Self.paramKey) no device belongs to this app")
            }
            for param in settings.params {
                if let other = owners.updateValue(app, forKey: param) {
                    notes.append(
                        "\(app): \(Self.paramKey): \(param) is in \(other), too; its devices belong to the last app that names it"
                    )
                }
            }
        }
        return notes
    }

    /// The first app and all enabled further apps, sorted by name.
    var enabledApps: [Self] { [self] + otherApps.map(\.value) }

    private var otherApps: [(key: String, value: Self)] {
        apps.filter(\.value.enabled).sorted { $0.key < $1.key }
    }
}

/// The settings of an app that chooses its payload format.
package protocol PayloadChoice {
    var profile: PayloadProfile { get }
    var afterEnd: AfterEnd? { get }
    var caFile: String? { get }
    var proxy: PushProxy? { get }
    var limits: ProviderLimits { get }
}

/// The rules of an app that chooses its payload format, as far as the settings decide.
package protocol PayloadChoiceRules: PushAppRules {
    associatedtype AppSettings: PayloadChoice
    var settings: AppSettings { get }
}

extension PayloadChoiceRules {
    package var connection: PushConnectionSettings {
        PushConnectionSettings(authorityFile: settings.caFile, proxy: settings.proxy)
    }
    package var limits: ProviderLimits { settings.limits }
    package var asksForDeviceCode: Bool { settings.profile == .tenDarts }

    /// By default, Linphone's apps get an INVITE and a CANCEL after a call's end, because Flexisip sends both.
    package func afterEnd(of token: PushToken) -> AfterEnd {
        settings.afterEnd ?? (settings.profile == .linphone ? .inviteCancel : .none)
    }

    package func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite { settings.profile.afterLateInvite(wish) }
}

/// Decides whether a push token is for one of the apps of a service, if the whole `pn-param` names the app. The devices
/// of a service with one app may omit `pn-param`.
struct ParamAcceptance: TokenAcceptance {
    private let apps: Set<ByteString>
    private let isToken: @Sendable (ByteString) -> Bool
    private let noToken: TokenProblem
    private let noParam: TokenProblem
    private let noApp: TokenProblem

    /// - Parameters:
    ///   - settings: the settings of the service.
    ///   - isToken: whether a `pn-prid` can be a push token of the service.
    ///   - noToken: the problem of a token with another `pn-prid`.
    ///   - noParam: the problem of a token without `pn-param`, if there are several apps.
    ///   - noApp: the problem of a token whose `pn-param` is not in the settings.
    init(
        _ settings: some NamedApps, isToken: @escaping @Sendable (ByteString) -> Bool, noToken: TokenProblem,
        noParam: TokenProblem, noApp: TokenProblem
    ) {
        apps = Set(settings.enabledApps.flatMap(\.params).map { ByteString($0) })
        self.isToken = isToken
        self.noToken = noToken
        self.noParam = noParam
        self.noApp = noApp
    }

    func problem(with token: PushToken) -> TokenProblem? {
        guard isToken(token.prid) else { return noToken }
        guard !token.param.isEmpty else { return apps.count > 1 ? noParam : nil }
        return apps.contains(token.param) ? nil : noApp
    }
}
