import Bytes

/// All enabled apps, and the mapping from tokens to apps.
package struct PushDirectory: Sendable {
    package private(set) var apps: [PushApp] = []
    /// The app for tokens that may omit the app.
    private var fallbacks: [PushProvider: PushApp.ID] = [:]
    private var named: [PushProvider: [ByteString: PushApp.ID]] = [:]
    private let acceptance: PushAcceptance

    package init(_ settings: PushSettings) {
        acceptance = PushAcceptance(settings)
        if settings.apns.enabled {
            for provider in [PushProvider.apns, .apnsDevelopment] {
                add(provider, settings.apns, settings.apns.apps, settings.payload, names: \.topics) {
                    $0.enabled ? .apns($0) : nil
                }
            }
        }
        if settings.fcm.enabled {
            add(.fcm, settings.fcm, settings.fcm.apps, settings.payload, names: \.names) {
                $0.enabled ? .fcm($0) : nil
            }
        }
        if settings.webPush.enabled {
            fallbacks[.webPush] = append(
                .webPush, PushProvider.webPush.rawValue, .webPush(settings.webPush), settings.payload)
        }
        if settings.acrobits.enabled {
            fallbacks[.acrobits] = append(
                .acrobits, PushProvider.acrobits.rawValue, .acrobits(settings.acrobits), settings.payload)
        }
        if settings.http.enabled {
            for (name, app) in settings.http.apps.sorted(by: { $0.key < $1.key }) {
                named[.http, default: [:]][ByteString(name)] = append(
                    .http, "\(PushProvider.http.rawValue)/\(name)", .http(app), settings.payload)
            }
        }
    }

    package subscript(id: PushApp.ID) -> PushApp? { apps.indices.contains(id.index) ? apps[id.index] : nil }

    /// The app of a token; `nil` if its provider is switched off, or if no app matches: it may have been stored before
    /// the settings changed.
    package func app(for token: PushToken) -> PushApp.ID? {
        guard acceptance.problem(with: token) == nil else { return nil }
        return namedApp(for: token) ?? fallbacks[token.provider]
    }

    /// The app that a token's `pn-param` names.
    private func namedApp(for token: PushToken) -> PushApp.ID? {
        guard let named = named[token.provider] else { return nil }
        switch token.provider {
        case .apns, .apnsDevelopment: return APNsTopics.Name(token.param).names.lazy.compactMap { named[$0] }.first
        case .fcm, .http: return named[token.param]
        case .webPush, .acrobits: return nil
        }
    }

    private mutating func append(
        _ provider: PushProvider, _ name: String, _ service: PushApp.Service, _ payload: PayloadSettings
    ) -> PushApp.ID {
        let id = PushApp.ID(index: apps.count)
        apps.append(PushApp(id: id, provider: provider, name: name, service: service, payload: payload))
        return id
    }

    private mutating func add<Settings>(
        _ provider: PushProvider, _ first: Settings, _ others: [String: Settings], _ payload: PayloadSettings,
        names: KeyPath<Settings, [String]>, _ service: (Settings) -> PushApp.Service?
    ) {
        func append(_ settings: Settings, _ name: String) -> PushApp.ID? {
            service(settings).map { self.append(provider, name, $0, payload) }
        }
        guard let fallback = append(first, provider.rawValue) else { return }
        fallbacks[provider] = fallback
        // With one app no choice is needed.
        guard !others.isEmpty else { return }
        var known: [ByteString: PushApp.ID] = [:]
        for name in first[keyPath: names] { known[ByteString(name)] = fallback }
        for (name, other) in others.sorted(by: { $0.key < $1.key }) {
            guard let id = append(other, "\(provider.rawValue)/\(name)") else { continue }
            for name in other[keyPath: names] { known[ByteString(name)] = id }
        }
        named[provider] = known
    }
}
