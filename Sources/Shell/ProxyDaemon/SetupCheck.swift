import Addressing
import Bytes
import Crypto
import FoundationEssentials
import HTTPServices
import ProxyCore
import ProxyPolicy
import ProxyRuntime
import PushDelivery
import PushSending
import Reactor
import Registration
import Settings
package import Timekeeping
import UserSources

/// Checks the files that the settings name: keys, certificates and service accounts. The running daemon reads the same
/// files at its start and at its first push.
package enum SetupCheck {
    /// Returns one line for each problem: the position in the settings, the file, and why the file cannot be used.
    package static func problems(of settings: DaemonSettings, in file: String, on date: UnixTime) -> [String] {
        check(settings, in: file, on: date).found
    }

    /// Returns one line for each credential that cannot be checked yet, because systemd passes credentials only at the
    /// start of the service.
    package static func unseenCredentials(
        of settings: DaemonSettings, in file: String, on date: UnixTime
    ) -> [String] {
        check(settings, in: file, on: date).unseen
    }

    private static func check(_ settings: DaemonSettings, in file: String, on date: UnixTime) -> Check {
        var check = Check(file: file, date: date)
        check.push(settings.push)
        check.listener(settings.tls.certFile, settings.tls.keyFile, "tls")
        for (name, pair) in settings.tls.certificates.sorted(by: { $0.key < $1.key }) {
            check.listener(pair.certFile, pair.keyFile, "tls.certificates.\(name)")
        }
        check.authority(settings.tls.caFile)
        check.authority(settings.tls.clientCAFile, "client-ca-file")
        check.listener(settings.api.certFile, settings.api.keyFile, "api")
        check.listener(settings.admin.certFile, settings.admin.keyFile, "admin")
        check.listener(settings.cluster.certFile, settings.cluster.keyFile, "cluster")
        check.authority(settings.cluster.caFile, "cluster.ca-file")
        check.authority(settings.api.deviceRegistration.webhookAuthorityFile, "webhook-ca-file")
        for (_, source) in settings.users.inOrder {
            check.authority(source.caFile)
            check.secret(source.passwordFile, "password-file")
            check.secret(source.secretFile, "secret-file")
        }
        for (_, issuer) in settings.bearer.inOrder { check.authority(issuer.caFile) }
        check.authority(settings.hep.caFile)
        check.secret(settings.hep.passwordFile, "password-file")
        check.secret(settings.postgreSQL.passwordFile, "password-file")
        check.authority(settings.otlp.caFile)
        check.headers(settings.otlp.headersFile)
        check.authority(settings.events.authorityFile)
        for file in settings.events.secretFiles { check.eventSecret(file) }
        return check
    }

    /// Returns one line for each problem that does not keep the daemon from starting.
    package static func notes(of settings: DaemonSettings) -> [String] {
        var notes: [String] = []
        let push = settings.push
        if push.enabledProviders.isEmpty {
            notes.append("push: no provider is enabled, so no phone is woken; see push.apns and push.fcm")
        }
        if settings.auth == .off, !settings.users.order.isEmpty {
            notes.append("users: no source is asked, because auth is off")
        }
        if !settings.bearer.issuers.isEmpty {
            if settings.auth == .off { notes.append("bearer: no token is read, because auth is off") }
            if !settings.listen.contains(where: \.transport.isSecure) {
                notes.append("bearer: tokens are accepted over TLS only, and listen has no tls or wss address")
            }
        }
        notes += withTokensAlone(settings)
        notes += push.services.filter(\.enabled).flatMap(\.notes)
        return notes + unshownCertificates(settings) + distrustedWebSockets(settings)
    }

    /// Returns notes about domains under `register-upstream` that accept bearer tokens. Users without a known password
    /// cannot be registered at the PBX.
    private static func withTokensAlone(_ settings: DaemonSettings) -> [String] {
        let sources = settings.users.rules.sources
        return settings.registerUpstream.keys.sorted().filter { domain in
            let home = domain.lowercased()
            let hasTokens = settings.bearer.issuers.values.contains { issuer in
                issuer.domains.isEmpty || issuer.domains.contains { $0.lowercased() == home }
            }
            let hasSource = sources.contains { $0.domains.isEmpty || $0.domains.contains(ByteString(home)) }
            return hasTokens && !hasSource
        }.map {
            "register-upstream: users of \($0) who only show bearer tokens are not registered at the PBX, unless sippushd user add or a source of users has their password"
        }
    }

    /// Returns notes about trusted names that no peer can prove. Only a certificate proves a peer's name, because
    /// trusted names are never looked up in DNS.
    private static func unshownCertificates(_ settings: DaemonSettings) -> [String] {
        let names = settings.tenantList.allPeers.compactMap(\.provedName)
        guard settings.listen.contains(where: \.transport.isSecure) else {
            return names.map {
                "trusted: \($0) is the name in a certificate, which a peer presents only over TLS: add a tls address under listen, or write the peer's address"
            }
        }
        guard let upstream = settings.upstream, !upstream.isSecure, upstream.transport != .tls else { return [] }
        let host = upstream.host.string.lowercased()
        return names.filter { $0 == host }.map {
            "trusted: \($0) is the name in a certificate, and the upstream of that name is reached without TLS: write its address as well"
        }
    }

    /// Returns one line for each address in the settings that another program uses. The check of ports makes sense only
    /// while no daemon runs with the settings.
    package static func takenPorts(of settings: DaemonSettings) -> [String] {
        return settings.places.compactMap { name, endpoint, isStream in
            guard let obstacle = PortCheck.obstacle(to: endpoint, isStream: isStream), obstacle.isAddressInUse else {
                return nil
            }
            return "\(name): another program listens there"
        }
    }

    /// Returns a note if addresses are trusted and WebSockets are served, because an address does not make a WebSocket
    /// peer trusted.
    private static func distrustedWebSockets(_ settings: DaemonSettings) -> [String] {
        let addresses = settings.tenantList.allPeers.filter { if case .name = $0 { false } else { true } }
        var webSockets = settings.listen.filter(\.transport.isWebSocket).map {
            "\($0.transport.parameterName):\($0.endpoint)"
        }
        if let path = settings.webSocket.apiPath { webSockets.append("websocket.api-path \(path)") }
        guard !addresses.isEmpty, !webSockets.isEmpty else { return [] }
        return [
            "trusted: addresses do not count over WebSocket (\(webSockets.joined(separator: ", "))); there only the name in a peer's certificate makes it trusted (wss, tls.client-ca-file)"
        ]
    }

    /// Asks each source of users, and reads the bearer token issuers' keys; returns one line for each faulty source or
    /// issuer.
    package static func userProblems(of settings: DaemonSettings) -> [String] {
        guard settings.auth == .digest else { return [] }
        return sourceProblems(of: settings) + keyProblems(of: settings)
    }

    /// Reads the keys of each bearer token issuer; returns one line for each issuer without usable keys.
    private static func keyProblems(of settings: DaemonSettings) -> [String] {
        do {
            return KeyFindings.findings(try KeySources.facts(of: settings.bearer), hasTLS: true).filter {
                $0.level == .wrong
            }
            .map { finding in finding.words + (finding.cure.map { " => \($0)" } ?? "") }
        } catch {
            return ["bearer: the keys cannot be read: \(error)"]
        }
    }

    private static func sourceProblems(of settings: DaemonSettings) -> [String] {
        do {
            let facts = try UserSources.facts(
                of: settings.users, domain: settings.domains.first ?? "", realm: { settings.realm(of: $0) })
            return UserFindings.findings(facts, realms: [], asked: nil).filter { $0.level == .wrong }
                .map { finding in finding.words + (finding.cure.map { " => \($0)" } ?? "") }
        } catch {
            return ["users: the sources cannot be asked: \(error)"]
        }
    }

    private struct Check {
        let file: String
        let date: UnixTime
        private let document: YAMLNode?
        private(set) var found: [String] = []
        private(set) var unseen: [String] = []
        private var seen = Set<String>()

        init(file: String, date: UnixTime) {
            self.file = file
            self.date = date
            document = (try? SettingsFile.bytes(at: file, limit: 1 << 20)).flatMap {
                try? YAMLNode.read($0, file: file)
            }
        }

        // MARK: Files of each group

        mutating func push(_ push: PushSettings) {
            for file in push.services.filter(\.enabled).flatMap(\.files) {
                switch file {
                case .signingKey(let path, let name): key(path, name)
                case .certificate(let path, let key): certificate(path, key, "cert-file")
                case .authorities(let path): authority(path)
                case .serviceAccount(let path): account(path)
                }
            }
        }

        mutating func listener(_ certificate: String?, _ key: String?, _ group: String) {
            guard let certificate, let key else { return }
            attempt(certificate, "\(group).cert-file", with: (key, "\(group).key-file")) { date in
                _ = try TLSContext.server(certificate: .file(certificate), key: .file(key), protocols: ["http/1.1"])
                try Self.expectLife(of: certificate, on: date)
            }
        }

        private mutating func key(_ path: String, _ name: String) {
            attempt(path, name) { _ in _ = try ProviderKey(.file(path), for: .es256) }
        }

        private mutating func account(_ path: String) {
            attempt(path, "service-account-file") { _ in _ = try ServiceAccount(file: path) }
        }

        private mutating func certificate(_ path: String, _ key: String?, _ name: String) {
            attempt(path, name, with: key.map { ($0, "cert-key-file") }) { date in
                _ = try TLSContext.client(certificate: .file(path), key: .file(key ?? path))
                try Self.expectLife(of: path, on: date)
            }
        }

        mutating func authority(_ path: String?, _ name: String = "ca-file") {
            guard let path else { return }
            attempt(path, name) { date in
                _ = try TLSContext.client(authority: .file(path))
                let ends = try PEM.file(path).certificateEnds()
                if let last = ends.max(), last <= date { throw Ended(date: last) }
            }
        }

        mutating func secret(_ path: String?, _ name: String) {
            guard let path else { return }
            attempt(path, name) { _ in
                let bytes = try SettingsFile.bytes(at: path, limit: UserSourceSettings.longestSecret)
                if bytes.allSatisfy({ $0 == 10 || $0 == 13 }) { throw Empty() }
            }
        }

        /// Checks the file with the header fields for the OTLP collector.
        mutating func headers(_ path: String?) {
            guard let path else { return }
            attempt(path, "headers-file") { _ in _ = try OTLPSettings.headers(at: path) }
        }

        /// Checks a file with a secret that signs events.
        mutating func eventSecret(_ path: String) {
            attempt(path, "secret-files") { _ in _ = try EventSecrets.key(at: path) }
        }

        private struct Empty: Error, CustomStringConvertible { let description = "it is empty" }

        /// Checks the dates of the first certificate in the chain that the daemon presents.
        ///
        /// - Throws: an error if the certificate has expired.
        private static func expectLife(of path: String, on date: UnixTime) throws {
            if let end = try PEM.file(path).certificateEnds().first, end <= date { throw Ended(date: end) }
        }

        private struct Ended: Error, CustomStringConvertible {
            let date: UnixTime

            var description: String {
                let end = Date(timeIntervalSince1970: Double(date.seconds))
                return "the certificate expired on \(end.formatted(.iso8601.year().month().day()))"
            }
        }

        // MARK: Problems

        /// Reads a file once for each setting that names it, even if several apps name the file. If a certificate or
        /// its key has a problem, the problem names the faulty file.
        private mutating func attempt(
            _ path: String, _ name: String, with other: (path: String, name: String)? = nil,
            _ body: (UnixTime) throws -> Void
        ) {
            guard seen.insert("\(name) \(path)").inserted else { return }
            for (path, name) in [(path, name)] + (other.map { [($0.path, $0.name)] } ?? []) {
                guard let credential = Credential.text(of: path), Credential.isMissing(path) else { continue }
                if Credential.isPassed {
                    found.append(
                        "\(name): systemd did not pass \(credential): the unit has no LoadCredential= of that name")
                } else {
                    unseen.append("\(name): \(credential) is there when systemd has started the unit (LoadCredential=)")
                }
                return
            }
            do {
                try body(date)
            } catch {
                var (path, name) = (path, name)
                if let other, case TLSError.unreadable(other.path, _) = error { (path, name) = other }
                let place = document.flatMap { Self.position(of: path, under: name, in: $0) }
                let words = "\(error)"
                found.append(
                    "\(place.map { "\(file):\($0)" } ?? file): \(name): \(words.contains(path) ? "" : "\(path): ")\(words)"
                )
            }
        }

        /// Returns the position in the settings at which the key, or a path of keys, names the file.
        private static func position(of text: String, under name: String, in node: YAMLNode) -> YAMLPosition? {
            for entry in node.entries ?? [] {
                let found = entry.value.text.map { (try? Credential.path(of: $0)) ?? $0 }
                if found == text, name == entry.key { return entry.value.position }
                let rest = name.hasPrefix("\(entry.key).") ? String(name.dropFirst(entry.key.count + 1)) : name
                if let place = position(of: text, under: rest, in: entry.value) { return place }
            }
            return nil
        }
    }
}

extension DaemonSettings {
    /// All addresses at which the daemon listens, with their names in the doctor's report.
    var places: [(name: String, endpoint: Endpoint, isStream: Bool)] {
        var places = listen.map {
            (
                name: "\($0.transport.parameterName):\($0.endpoint)", endpoint: $0.endpoint,
                isStream: $0.transport != .udp
            )
        }
        places += (api.listen + admin.listen).map { ("http:\($0)", $0, true) }
        if let place = cluster.listen { places.append(("cluster.listen \(place)", place, true)) }
        return places
    }
}
