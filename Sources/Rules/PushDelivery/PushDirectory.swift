import Bytes

/// All enabled push apps, and the rules by which a push token selects its app.
package struct PushDirectory: Sendable {
    package private(set) var apps: [PushApp] = []
    /// For each provider, the app without a name, which gets the tokens that select no other app.
    private var fallbacks: [PushProvider: PushApp.ID] = [:]
    private var named: [PushProvider: [ByteString: PushApp.ID]] = [:]
    private let acceptance: PushAcceptance

    package init(_ settings: PushSettings) {
        acceptance = PushAcceptance(settings)
        for provider in PushProvider.allCases {
            guard let service = settings.service(of: provider), service.enabled else { continue }
            add(service.apps(of: provider), of: provider, settings.payload)
        }
    }

    package subscript(id: PushApp.ID) -> PushApp? { apps.indices.contains(id.index) ? apps[id.index] : nil }

    /// The app of a push token; `nil` if the token's provider is disabled or no app accepts the token.
    package func app(for token: PushToken) -> PushApp.ID? {
        guard acceptance.problem(with: token) == nil else { return nil }
        return named[token.provider].flatMap { acceptance[token.provider].app(of: token, in: $0) }
            ?? fallbacks[token.provider]
    }

    private mutating func add(_ apps: [PushAppSettings], of provider: PushProvider, _ payload: PayloadSettings) {
        // A single push app without a name gets all tokens of its provider. If a provider has several push apps,
        // `pn-param` must select one of them.
        let isChosen = apps.count > 1 || apps.first?.name != nil
        for app in apps {
            let id = PushApp.ID(index: self.apps.count)
            let name = app.name.map { "\(provider.rawValue)/\($0)" } ?? provider.rawValue
            self.apps.append(PushApp(id: id, provider: provider, name: name, rules: app.rules, payload: payload))
            if app.name == nil { fallbacks[provider] = id }
            guard isChosen else { continue }
            for param in app.params { named[provider, default: [:]][ByteString(param)] = id }
        }
    }
}
