import Bytes
import Crypto
package import Persistence
import PushDelivery
import Registration

/// A mobile app, from the settings or from the store. The server of a mobile app may register devices.
struct MobileApp: Sendable {
    /// The MobileAppId in lower case.
    let id: String
    private let settings: MobileAppSettings
    /// The daemon's domains in lower case. A UserId without a domain belongs to the first domain.
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

    /// The address-of-record for a UserId; `nil` if this daemon cannot have a user with the address.
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

/// All mobile apps whose servers may register devices over HTTP, from the settings and from the store.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
package final class MobileApps: @unchecked Sendable {
    private let domains: [String]
    /// The apps in the settings, by their names; these apps have priority over apps in the store.
    private let fixed: [String: MobileAppSettings]
    private var stored: [String: StoredMobileApp] = [:]
    /// The mobile apps that are being stored. Their names and ids are already in use.
    private var coming: [String: StoredMobileApp] = [:]
    /// All apps by their ids, from the settings and the store.
    private var apps: [String: MobileApp] = [:]

    /// The number of changes of the stored apps by this daemon.
    package private(set) var changes = 0

    static let limit = 1000
    /// The maximum number of apps of one domain that an administrator of domains may add, so that one domain cannot use
    /// up the places of all domains.
    static let limitOfDomain = 100
    /// The number of apps that only administrators of the whole daemon can add, when administrators of domains have
    /// used up the other places.
    static let reserve = 100

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

    /// Returns the app with the given id and organisation, if the API token is right. For a wrong id and a wrong token,
    /// the result is the same. Therefore a client cannot find out which apps exist.
    func app(_ id: RequestID, of organisation: String, showing apiToken: String) -> MobileApp? {
        let hash = HashAlgorithm.sha256.digest(of: Array(apiToken.utf8))
        guard let app = apps[id.text], app.isOf(organisation), app.knows(hash) else { return nil }
        return app
    }

    // MARK: Apps of the store

    /// The reports about all apps for lists of apps, sorted by name.
    package var reports: [AppReport] {
        let all =
            fixed.map { AppReport($0.key, $0.value, createdAt: nil) }
            + stored.values.compactMap { app in app.settings.map { AppReport(app.name, $0, createdAt: app.createdAt) } }
        return all.sorted { $0.name < $1.name }
    }

    /// The reason why an administrator with the given domains cannot add the app; `nil` if the app can be added.
    package func conflict(with app: StoredMobileApp, addedBy domains: DomainScope = .wholeDaemon) -> String? {
        if let conflict = Self.conflict(of: app, with: fixed) { return conflict }
        if stored[app.name] != nil || coming[app.name] != nil { return "an app named \(app.name) exists already" }
        let others = Array(stored.values) + coming.values
        if others.contains(where: { $0.id == app.id }) { return "an app with this id exists already" }
        let limit = Self.limit - (domains == .wholeDaemon ? 0 : Self.reserve)
        guard others.count < limit else { return "the limit of \(limit) apps is reached" }
        guard domains != .wholeDaemon, let domain = app.domain else { return nil }
        return others.count { $0.domain == domain } < Self.limitOfDomain
            ? nil : "the limit of \(Self.limitOfDomain) apps of a domain is reached"
    }

    /// Reserves the app's name and id until the app is stored, or storing the app has failed.
    package func addBegins(_ app: StoredMobileApp) { coming[app.name] = app }

    package func addEnds(_ app: StoredMobileApp, isStored: Bool) {
        coming[app.name] = nil
        if isStored { add(app) }
    }

    /// The reason why a stored app conflicts with the apps in the settings; `nil` if the app does not conflict.
    package static func conflict(of app: StoredMobileApp, with fixed: [String: MobileAppSettings]) -> String? {
        if fixed[app.name] != nil { return "the settings define an app named \(app.name)" }
        return fixed.values.contains { $0.id == app.id } ? "the settings define an app with this id" : nil
    }

    /// Adds an app of device registration from the store, unless the stored values are malformed.
    package func add(_ app: StoredMobileApp) {
        guard let settings = app.settings else { return }
        remove(app.name)
        stored[app.name] = app
        use(settings)
        changes += 1
    }

    /// Replaces all apps of the store. Apps that conflict with apps in the settings are left out.
    ///
    /// - Returns: the conflicts.
    package func replace(by apps: [StoredMobileApp]) -> [(app: StoredMobileApp, reason: String)] {
        for name in Array(stored.keys) { remove(name) }
        var conflicts: [(app: StoredMobileApp, reason: String)] = []
        for app in apps {
            if let reason = Self.conflict(of: app, with: fixed) {
                conflicts.append((app, reason))
            } else {
                add(app)
            }
        }
        return conflicts
    }

    package func remove(_ name: String) {
        changes += 1
        guard let id = stored.removeValue(forKey: name)?.id else { return }
        apps[id] = nil
    }
}
