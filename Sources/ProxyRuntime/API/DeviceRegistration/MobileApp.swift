import Crypto
import PushDelivery
import Registration
import SIPGrammar

/// An app that may register devices, ready for use.
struct MobileApp: Sendable {
    /// The MobileAppId in lower case.
    let id: String
    private let settings: MobileAppSettings
    /// In lower case; the first is the home of users without one.
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

    /// `nil` when the UserId names nobody who could register here.
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

/// All of them, by their identifiers.
struct MobileApps: Sendable {
    private var apps: [String: MobileApp] = [:]

    init(_ settings: [String: MobileAppSettings], domains: [String]) {
        for app in settings.values {
            if let app = MobileApp(app, domains: domains) { apps[app.id] = app }
        }
    }

    subscript(id: String) -> MobileApp? { apps[id] }

    /// The app, if the token is its own. What is wrong is not told, so that nobody learns which apps there are.
    func app(_ id: RequestID, of organisation: String, showing apiToken: String) -> MobileApp? {
        let hash = HashAlgorithm.sha256.digest(of: Array(apiToken.utf8))
        guard let app = apps[id.text], app.isOf(organisation), app.knows(hash) else { return nil }
        return app
    }
}
