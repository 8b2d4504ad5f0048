import Bytes
import Crypto
package import Persistence
import PushDelivery
import Registration

/// An app whose server may register devices, from the settings or from the store.
struct MobileApp: Sendable {
    /// The MobileAppId in lower case.
    let id: String
    private let settings: MobileAppSettings
    /// The daemon's domains in lower case. The first is meant when a UserId names none.
    private let domains: [String]

    init?(_ settings: MobileAppSettings, domains: [String]) {
        guard let id = settings.id else { return nil }
        self.id = id
        self.settings = settings
        self.domains = domains.map { $0.lowercased() }
    }

    fileprivate func isOf(_ organisation: String) -> Bool {
        settings.organisation?.lowercased() == organisation.lowercased()
    }

    fileprivate func knows(_ hash: [UInt8]) -> Bool {
        var isKnown = false
        for known in settings.tokenHashes where equalInConstantTime(known, hash) { isKnown = true }
        return isKnown
    }

    /// The address of record that a UserId stands for; `nil` when nobody of that address could register here.
    func address(of user: String) -> AddressOfRecord? {
        guard let text = settings.user.text(for: user) else { return nil }
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        guard let name = parts.first, !name.isEmpty, parts.count <= 2 else { return nil }
        let wanted = parts.count == 2 ? parts[1].lowercased() : domains.first
        guard let domain = wanted, domains.contains(domain) else { return nil }
        return AddressOfRecord(user: ByteString(String(name)), host: ByteString(domain))
    }

    func token(_ text: String, on platform: DeviceRequest.Platform) -> PushToken {
        switch platform {
        case .apple:
            PushToken(
                provider: settings.appleEnvironment == .production ? .apns : .apnsDevelopment,
                param: ByteString(settings.appleParam ?? ""), prid: ByteString(text))
        case .google:
            PushToken(provider: .fcm, param: ByteString(settings.googleParam ?? ""), prid: ByteString(text))
        }
    }
}

/// All apps whose servers may register devices: those of the settings and those of the store.
///
/// - `@unchecked Sendable` because it lives on the shard's loop and is used there alone.
package final class MobileApps: @unchecked Sendable {
    private let domains: [String]
    /// The apps of the settings by their names; they win over those of the store.
    private let fixed: [String: MobileAppSettings]
    private var stored: [String: StoredMobileApp] = [:]
    /// All apps by their identifiers.
    private var apps: [String: MobileApp] = [:]

    static let limit = 1000

    package init(_ settings: [String: MobileAppSettings], domains: [String]) {
        self.domains = domains
        fixed = settings
        for app in settings.values { use(app) }
    }

    private func use(_ settings: MobileAppSettings) {
        if let app = MobileApp(settings, domains: domains) { apps[app.id] = app }
    }

    package var isEmpty: Bool { apps.isEmpty }

    subscript(id: String) -> MobileApp? { apps[id] }

    /// The app, if the token is its own. What is wrong is not told, so that nobody learns which apps there are.
    func app(_ id: RequestID, of organisation: String, showing apiToken: String) -> MobileApp? {
        let hash = HashAlgorithm.sha256.digest(of: Array(apiToken.utf8))
        guard let app = apps[id.text], app.isOf(organisation), app.knows(hash) else { return nil }
        return app
    }

    // MARK: Those of the store

    /// All apps as lists show them, by their names.
    package var reports: [AppReport] {
        let all =
            fixed.map { AppReport($0.key, $0.value, createdAt: nil) }
            + stored.values.compactMap { app in app.settings.map { AppReport(app.name, $0, createdAt: app.createdAt) } }
        return all.sorted { $0.name < $1.name }
    }

    /// Why an app cannot be added; `nil` when it can.
    package func conflict(with app: StoredMobileApp) -> String? {
        if let conflict = Self.conflict(of: app, with: fixed) { return conflict }
        if stored[app.name] != nil { return "an app is called \(app.name) already" }
        if stored.values.contains(where: { $0.id == app.id }) {
            return "an app has this id already"
        }
        return stored.count < Self.limit ? nil : "there are \(Self.limit) apps already"
    }

    /// Why an app of the store cannot be used beside those of the settings; `nil` when it can.
    package static func conflict(of app: StoredMobileApp, with fixed: [String: MobileAppSettings]) -> String? {
        if fixed[app.name] != nil { return "an app of the settings is called \(app.name)" }
        return fixed.values.contains { $0.id == app.id } ? "an app of the settings has this id" : nil
    }

    /// Adds an app of the store, unless it is not well-formed.
    package func add(_ app: StoredMobileApp) {
        guard let settings = app.settings else { return }
        // Two apps of this name may have been asked for at the same time.
        remove(app.name)
        stored[app.name] = app
        use(settings)
    }

    package func remove(_ name: String) {
        guard let id = stored.removeValue(forKey: name)?.id else { return }
        apps[id] = nil
    }
}
