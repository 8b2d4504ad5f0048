import Addressing
import Bytes
import Calling
import Crypto
package import HTTPServices
package import Persistence
import ProxyCore
package import ProxyRuntime
import Reactor
package import Registration
import Telemetry
import Timekeeping

/// Reads and changes users, keys and apps in the store while no daemon runs.
package struct OfflineStore {
    private let place: StorePlace
    /// The mobile apps that the settings define.
    private let apps: [String: MobileAppSettings]
    /// The domains in the settings.
    private let domains: [String]
    /// The realms of the domains; `nil` for commands that change no users.
    private let realms: UserRealms?

    package init(
        _ place: StorePlace, domains: [String] = [], apps: [String: MobileAppSettings] = [:], realms: UserRealms? = nil
    ) {
        self.place = place
        self.domains = domains
        self.apps = apps
        self.realms = realms
    }

    /// Whether the store does not exist yet; a command that only reads does not create the store.
    package var isMissing: Bool { place.isMissing }
    /// The message of a command that needs the store before the daemon has created it.
    package var missingSentence: String {
        "the store \(place.name) does not exist yet; the daemon creates it when it starts"
    }

    // MARK: Backup

    /// Copies the store into a file, as a running daemon does.
    package func backUp(to file: String) throws(StartError) -> BackupReport {
        guard !isMissing else { throw StartError(missingSentence) }
        do throws(StoreError) {
            return BackupReport(file: file, bytes: try place.backUp(to: file))
        } catch {
            throw StartError(error)
        }
    }

    // MARK: Users

    package func users() throws(StartError) -> [UserReport] {
        try read { file throws(StoreError) in
            try file.users().map { UserReport(name: "\($0.name)@\($0.realm)") }
        }
    }

    package func add(_ credentials: UserCredentials) throws(StartError) {
        guard let user = credentials.digestUser else {
            throw StartError("the name must be user@domain, without slashes")
        }
        try write(.addUser(user))
    }

    /// Adds all users of the batch in one transaction.
    package func add(_ batch: UserBatch) throws(StartError) {
        do throws(StoreError) {
            try place.opened().keep(try batch.changes())
        } catch {
            throw StartError(error)
        }
    }

    /// Returns the users after the user `name`, with their hashes.
    package func credentials(after name: String, limit: Int) throws(StartError) -> [UserCredentials] {
        guard !isMissing else { throw StartError(missingSentence) }
        let last = UserBatch.parts(of: name) ?? (.empty, .empty)
        return try read { file throws(StoreError) in
            try file.users(after: last.name, in: last.realm, limit: limit).map { UserCredentials($0) }
        }
    }

    package func removeUser(_ name: String) throws(StartError) {
        guard try users().contains(where: { $0.name == name }), let at = name.lastIndex(of: "@") else {
            throw StartError("no user is called \(name)")
        }
        let (user, realm) = (ByteString(String(name[..<at])), ByteString(String(name[name.index(after: at)...])))
        let ruled = realms?.users(named: user, of: realm) ?? []
        try write([.removeUser(name: user, realm: realm)] + ruled.map { .removeRules($0) })
    }

    // MARK: Rules

    /// Returns the rules of a user.
    package func rules(of name: String) throws(StartError) -> UserRulesBody {
        let aor = try aor(name)
        let rows = try read { file throws(StoreError) in try file.userRules(of: aor).map { [$0] } ?? [] }
        return UserRulesBody(rows.first?.rules ?? CallRules(), devices: [])
    }

    /// Sets the rules of a user. While the daemon does not run, rules cannot name a single device, because the user's
    /// devices are not known.
    package func set(_ body: UserRulesBody, of name: String) throws(StartError) {
        let aor = try aor(name)
        let rules: CallRules
        do throws(UserRulesBody.Fault) {
            rules = try body.rules(devices: [], knowsZone: { TimeZoneFiles.offsets(of: $0) != nil })
        } catch {
            throw StartError(error.sentence)
        }
        try write(rules.isEmpty ? .removeRules(aor) : .setRules(StoredUserRules(aor: aor, rules: rules)))
    }

    private func aor(_ name: String) throws(StartError) -> AddressOfRecord {
        guard let aor = ControlRoutes.aor(name), !aor.user.isEmpty,
            domains.contains(where: { ByteString($0).lowercased() == aor.host })
        else { throw StartError("\(name) is no user of this daemon's domains") }
        return aor
    }

    // MARK: Keys

    package func keys() throws(StartError) -> [APIKeyReport] {
        try read { file throws(StoreError) in try file.keys().compactMap(APIKey.init).map { APIKeyReport($0) } }
    }

    package func add(_ request: APIKeyRequest) throws(StartError) {
        guard let key = request.key(at: SystemClock.moment.date) else {
            throw StartError("the name or a domain is not well-formed")
        }
        if let complaint = APIKeyRequest.complaint(about: key, domains: domains) { throw StartError(complaint) }
        guard try !keys().contains(where: { $0.name == key.name }) else {
            throw StartError("a key named \(key.name) exists already")
        }
        try write(.addKey(key.stored))
    }

    package func removeKey(_ name: String) throws(StartError) {
        guard try keys().contains(where: { $0.name == name }) else { throw StartError("no key is called \(name)") }
        try write(.removeKey(name: name))
    }

    // MARK: Apps

    package func mobileApps() throws(StartError) -> [AppReport] { try directory().reports }

    package func add(_ request: AppRequest) throws(StartError) {
        let app = try request.app(at: SystemClock.moment.date)
        if let conflict = try directory().conflict(with: app) { throw StartError(conflict) }
        try write(.addApp(app))
    }

    package func removeApp(_ name: String) throws(StartError) {
        guard let app = try mobileApps().first(where: { $0.isNamed(name) }) else {
            throw StartError("no app is called \(name)")
        }
        guard !app.isFixed else { throw StartError("\(app.name) is defined in the settings; remove it there") }
        try write(.removeApp(name: app.name))
    }

    private func directory() throws(StartError) -> MobileApps {
        let directory = MobileApps(apps, domains: [])
        let stored = try read { file throws(StoreError) in try file.mobileApps() }
        for app in stored where MobileApps.conflict(of: app, with: apps) == nil { directory.add(app) }
        return directory
    }

    // MARK: The store

    private func read<Value>(
        _ body: (CommandStore) throws(StoreError) -> [Value]
    ) throws(StartError) -> [Value] {
        guard !isMissing else { return [] }
        do throws(StoreError) {
            return try body(try place.opened())
        } catch {
            throw StartError(error)
        }
    }

    private func write(_ change: ServiceChange) throws(StartError) { try write([change]) }

    private func write(_ changes: [ServiceChange]) throws(StartError) {
        do throws(StoreError) {
            try place.opened().keep(changes)
        } catch {
            throw StartError(error)
        }
    }
}

extension UserCredentials {
    init(_ user: DigestUser) {
        self.init(
            name: "\(user.name)@\(user.realm)", ha1MD5: user.ha1[.md5]?.string ?? "",
            ha1SHA256: user.ha1[.sha256]?.string, ha1SHA512_256: user.ha1[.sha512_256]?.string)
    }
}

/// The domains of users, and the realms for which their passwords are hashed.
package struct UserRealms: Sendable {
    package let domains: [String]
    private let realms: Realms

    package init(domains: [String], realms: Realms) {
        self.domains = domains
        self.realms = realms
    }

    /// The realm of a domain's users.
    package func realm(of domain: String) -> Realm { realms.realm(for: ByteString(domain)) }

    /// The domains and realms that a caller may see.
    func seen(by scope: DomainScope) -> UserRealms {
        UserRealms(domains: domains.filter { scope.permits(ByteString($0)) }, realms: realms)
    }

    /// The realms whose users a caller may see and change; `nil` for all realms. The users of a shared realm are
    /// visible only to a caller who may see all domains of the realm.
    func realms(within scope: DomainScope) -> [ByteString]? {
        guard scope != .wholeDaemon else { return nil }
        let owners = Dictionary(grouping: domains.map { ByteString($0).lowercased() }) { realms.realm(for: $0).account }
        return owners.filter { $0.value.allSatisfy(scope.permits) }.keys.sorted { $0.string < $1.string }
    }

    /// The addresses-of-record that a user of a realm has in the daemon's domains.
    func users(named name: ByteString, of realm: ByteString) -> [AddressOfRecord] {
        domains.map { ByteString($0).lowercased() }.filter { realms.realm(for: $0).account == realm }
            .map { AddressOfRecord(user: name, host: $0) }
    }

    func permits(realm: ByteString, _ scope: DomainScope) -> Bool { realms(within: scope)?.contains(realm) ?? true }
}

extension UserCredentials {
    /// Hashes a password for the domain's realm (RFC 7616 section 3.4.2).
    package init(name: String, password: String, realms: UserRealms) throws(StartError) {
        guard let at = name.lastIndex(of: "@"), at != name.startIndex else {
            throw StartError("the name must be user@domain, such as bob@\(realms.domains.first ?? "example.net")")
        }
        let domain = String(name[name.index(after: at)...]).lowercased()
        guard realms.domains.contains(where: { $0.lowercased() == domain }) else {
            throw StartError(
                "\(domain) is not one of this daemon's domains (\(realms.domains.joined(separator: ", ")))")
        }
        let user = String(name[..<at])
        self = try PasswordHasher().credentials(of: user, realm: realms.realm(of: domain), password: password)
    }
}

/// Computes the hashes of passwords (RFC 7616 section 3.4.2: HA1).
package struct PasswordHasher {
    private let functions: DigestFunctions

    package init() throws(StartError) { functions = try EngineFunctions.make(seal: TextSealer(), log: .silent).digest }

    package func credentials(of name: String, realm: Realm, password: String) -> UserCredentials {
        let hashed = DigestUser(
            name: ByteString(name), realm: realm.text, password: ByteString(password),
            algorithms: DigestAlgorithm.allCases, functions: functions)
        return UserCredentials(DigestUser(name: hashed.name, realm: realm.account, ha1: hashed.ha1))
    }
}
