import Addressing
import Bytes
package import Control
import Crypto
import FoundationEssentials
import HTTPServices
import Persistence
import ProxyCore
import ProxyPolicy
import ProxyRuntime
import PushDelivery
import PushSending
import Reactor
import Registration
import Resolver
import Routing
import Settings
import Telemetry
import Timekeeping
import UserSources

/// Examines everything that the daemon needs. The doctor changes nothing, and works with and without a running daemon.
package struct Doctor {
    private let settings: DaemonSettings
    private let path: String
    private let service: ServiceFacts
    /// The file of the certificate authorities that phones trust; `nil` for the system's authorities.
    private let authorities: String?

    package init(settings: DaemonSettings, path: String, service: ServiceFacts, authorities: String? = nil) {
        self.settings = settings
        self.path = path
        self.service = service
        self.authorities = authorities
    }

    /// - Parameters:
    ///   - users: the names of the users in the store as `user@realm`, and whether the list is complete; `nil` if the
    ///     users cannot be read.
    ///   - state: the state that the running daemon reports; `nil` if no daemon answers.
    ///   - pbxs: the PBXs at which the running daemon keeps users registered; `nil` if no daemon answers.
    /// - Returns: the report.
    package func findings(
        users: (names: [String], isWhole: Bool)?, state: DaemonState? = nil, pbxs: [UpstreamDomainReport]? = nil
    ) -> [Finding] {
        let now = SystemClock.moment.date
        let daemon = daemonProcess
        var found = configuration(on: now)
        found.append(StateFindings.daemon(at: settings.control, isThere: daemon != nil, state))
        found += service.fileFindings(of: settings, at: path)
        found += store(daemon)
        var certificates = CertificateCheck(on: now)
        certificates.check(settings, authorities: authorities)
        found += CertificateFindings.findings(certificates)
        if settings.auth == .digest, let users {
            found += RealmFindings.findings(
                users: users.names, isWhole: users.isWhole, domains: settings.domains,
                realms: settings.userRealms)
        }
        found += network(daemon)
        if let pbxs { found += PBXFindings.findings(pbxs) }
        found += MachineFindings.findings(machine(daemon))
        return found
    }

    /// The report for settings with an error, beyond which nothing is examined.
    package static func findings(_ error: String) -> [Finding] {
        [Finding("configuration", .wrong, error, cure: "Correct it: docs/settings.md has all keys.")]
    }

    private func store(_ daemon: Int32?) -> [Finding] {
        do throws(StartError) {
            guard case .postgreSQL(let address, _) = try settings.storePlace() else {
                return StateFindings.store(StoreFact(at: settings.store), hasDaemon: daemon != nil)
            }
            return [StateFindings.database(address.name, PostgreSQLExamination(of: address))]
        } catch {
            return [Finding("store", .note, "the database cannot be examined: \(error)")]
        }
    }

    private func configuration(on now: UnixTime) -> [Finding] {
        let problems = SetupCheck.problems(of: settings, in: path, on: now)
        let found =
            problems.map { Finding("configuration", .wrong, $0, cure: "Correct this file, or the settings.") }
            + SetupCheck.notes(of: settings).filter { !$0.hasPrefix("push: no provider") }.map {
                Finding("configuration", .note, $0)
            }
        return problems.isEmpty ? [Finding("configuration", .ok, "\(path) is fine")] + found : found
    }

    /// The process id of the program behind the control socket; negative if unknown, `nil` if no program listens.
    private var daemonProcess: Int32? {
        if let process = UnixSocket.listener(at: settings.control) { return process }
        do throws(SystemError) {
            return try UnixSocket.isListening(at: settings.control) ? -1 : nil
        } catch {
            return -1
        }
    }

    // MARK: The network

    private func network(_ daemon: Int32?) -> [Finding] {
        let ports = PortFindings.findings(ports, daemon: daemon)
        do {
            let examination = try NetworkExamination(settings, on: try EventLoop())
            return examination.run() + ports
        } catch {
            return [Finding("network", .wrong, "it cannot be examined: \(error)")] + ports
        }
    }

    private var ports: [PortFact] {
        settings.places.filter { $0.endpoint.port != 0 }.map { name, endpoint, isStream in
            let obstacle = PortCheck.obstacle(to: endpoint, isStream: isStream)
            let isTaken = obstacle?.isAddressInUse == true
            return PortFact(
                name: name, obstacle: obstacle, owner: isTaken ? PortOwner.of(endpoint, isStream: isStream) : nil)
        }
    }

    // MARK: The machine

    private func machine(_ daemon: Int32?) -> MachineFacts {
        var facts = MachineFacts()
        var folders = [DaemonSettings.folder(of: settings.store)]
        if let calls = settings.calls { folders.append(calls) }
        for folder in folders where FileManager.default.fileExists(atPath: folder) {
            do throws(SystemError) {
                facts.disks.append((folder, .success(try DiskProbe(of: folder))))
            } catch {
                facts.disks.append((folder, .failure(error)))
            }
        }
        facts.receiveMemory = ProcessFiles.number(in: "/proc/sys/net/core/rmem_max")
        facts.hasUDP = settings.listen.contains { $0.transport == .udp }
        if let daemon, daemon > 0, let count = ProcessFiles.descriptorLimit(of: daemon) {
            facts.descriptors = (count, "the system (process \(daemon))")
        } else if let count = service.unit?.openFiles {
            facts.descriptors = (count, "LimitNOFILE= of the unit")
        } else {
            facts.descriptors = (ProcessDescriptors.raiseLimit(), "the system")
        }
        facts.wantedConnections = settings.limits.connections
        facts.servedConnections = settings.flowLimits(descriptors: facts.descriptors?.count ?? 0).connections
        return facts
    }
}

/// The doctor's requests over the network, which run in parallel on their own loop.
///
/// - The class is `@unchecked Sendable`, because it is used only on the loop.
private final class NetworkExamination: @unchecked Sendable {
    private let settings: DaemonSettings
    private let loop: EventLoop
    private let resolver: DNSResolver
    private var push: PushService?
    private var pushProblem: String?
    private var tls: TLSContext?
    private var open = 0
    private var results: [String: TrialResult] = [:]
    private var names: [NameFact] = []
    private var peers: [PeerFact] = []
    private var probes: [PeerProbe] = []
    private var users: UserSources?
    private var userFacts: [UserSourceFact] = []
    private var keys: KeySources?
    private var keyFacts: [KeyFact] = []
    private var upstreamRealm: String?

    private static let peerLimit = 8

    init(_ settings: DaemonSettings, on loop: EventLoop) throws(SystemError) {
        self.settings = settings
        self.loop = loop
        resolver = try DNSResolver(on: loop)
        tls = try? settings.tls.clientContext()
        do throws(PushSetupError) {
            push = try PushService(loop: loop, settings: settings.push, log: .silent)
        } catch {
            pushProblem = error.description
        }
    }

    func run() -> [Finding] {
        open += 1
        tryProviders()
        lookUpNames()
        askTrusted()
        askUsers()
        readKeys()
        close()
        if open > 0 { loop.run() }
        for probe in probes { probe.close() }
        probes = []
        push?.close()
        resolver.close()
        users?.close()
        keys?.close()
        return findings
    }

    private func close() {
        open -= 1
        if open == 0 { loop.stop() }
    }

    private var findings: [Finding] {
        var found: [Finding] = []
        if let pushProblem {
            found.append(Finding("providers", .wrong, pushProblem, cure: "Correct this file, or the settings."))
        } else {
            let apps = push?.setup.directory.apps.map(\.name) ?? []
            found += ProviderFindings.findings(apps.compactMap { app in results[app].map { (app, $0) } })
        }
        found += NameFindings.findings(names.sorted { $0.name < $1.name }, own: HostAddress.all)
        found += PeerFindings.findings(
            peers.sorted { ($0.setting, "\($0.endpoint)") < ($1.setting, "\($1.endpoint)") },
            trusted: settings.tenantList.allPeers,
            hasUpstream: settings.upstream != nil, authenticates: settings.auth == .digest)
        var realms: [String] = []
        for realm in settings.domains.map({ settings.realm(of: $0) }) where !realms.contains(realm) {
            realms.append(realm)
        }
        found += UserFindings.findings(userFacts, realms: realms, asked: upstreamRealm)
        found += KeyFindings.findings(keyFacts, hasTLS: settings.listen.contains(where: \.transport.isSecure))
        return found
    }

    // MARK: Questions

    private func tryProviders() {
        for app in push?.setup.directory.apps ?? [] {
            open += 1
            push?.tryCredentials(of: app) { [self] result in
                results[app.name] = result
                close()
            }
        }
    }

    private func lookUpNames() {
        for domain in settings.domains where IPAddress(domain) == nil {
            lookUp(ServerQuery(host: domain), .domain) { _ in }
        }
        if let name = settings.advertise.map(CertificateCheck.host), IPAddress(name) == nil {
            lookUp(ServerQuery(host: name, port: 5060, transport: .udp), .advertised) { _ in }
        }
        if let upstream = settings.upstream { lookUp(upstream, "upstream") }
        for (_, group) in settings.registerUpstream.sorted(by: { $0.key < $1.key }) {
            if let pbx = group.upstream, pbx != settings.upstream { lookUp(pbx, "register-upstream") }
        }
        for (_, group) in settings.tenants.sorted(by: { $0.key < $1.key }) {
            if let pbx = group.upstream, pbx != settings.upstream { lookUp(pbx, "tenants.*.upstream") }
        }
    }

    private func lookUp(_ upstream: NextHop, _ setting: String) {
        let transport = upstream.transport ?? (upstream.isSecure ? .tls : nil)
        let query = ServerQuery(
            host: upstream.host.string, port: upstream.port, transport: transport, isSecure: upstream.isSecure)
        lookUp(query, .upstream) { [self] candidates in
            let spoken = Set(settings.listen.map(\.transport))
            let value = NextHop.settingType.print(upstream)
            for candidate in candidates.filter({ spoken.contains($0.transport) }).prefix(Self.peerLimit) {
                ask(candidate.endpoint, candidate.transport, as: setting, value, host: query.host)
            }
            if !settings.users.order.isEmpty, let first = candidates.first(where: { spoken.contains($0.transport) }) {
                askRealm(first.endpoint, first.transport, host: query.host)
            }
        }
    }

    private func lookUp(
        _ query: ServerQuery, _ purpose: NameFact.Purpose, _ done: @escaping ([ServerCandidate]) -> Void
    ) {
        open += 1
        resolver.resolve(query) { [self] outcome in
            var addresses: [IPAddress] = []
            var hasFailed = false
            switch outcome {
            case .success(let candidates):
                for candidate in candidates where !addresses.contains(candidate.endpoint.address) {
                    addresses.append(candidate.endpoint.address)
                }
                done(candidates)
            case .failure(let error): hasFailed = error == .unavailable
            }
            if IPAddress(query.host) == nil {
                names.append(NameFact(name: query.host, purpose: purpose, addresses: addresses, hasFailed: hasFailed))
            }
            close()
        }
    }

    /// Sends OPTIONS to the peers that are trusted by a single address.
    private func askTrusted() {
        let transport = settings.listen.contains { $0.transport == .udp } ? Transport.udp : .tcp
        let upstream = settings.upstream?.numeric?.1.address
        var count = 0
        for peer in settings.tenantList.allPeers where count < Self.peerLimit {
            let endpoint: Endpoint
            switch peer {
            case .endpoint(let found): endpoint = found
            case .block(let block):
                guard block.prefix == 128 else { continue }
                endpoint = Endpoint(block.base, 5060)
            case .name: continue
            }
            guard endpoint.address != upstream else { continue }
            count += 1
            ask(endpoint, transport, as: "trusted", TrustedPeer.settingType.print(peer), host: "\(endpoint.address)")
        }
    }

    /// Asks each source of users about a user who should not exist.
    private func askUsers() {
        guard settings.auth == .digest, !settings.users.order.isEmpty else { return }
        users = try? UserSources(settings.users, on: loop)
        open += 1
        guard let users else { return close() }
        users.check(settings.users, domain: settings.domains.first ?? "", realm: { settings.realm(of: $0) }) {
            [self] facts in
            userFacts = facts
            close()
        }
    }

    /// Reads the keys of the issuers of bearer tokens.
    private func readKeys() {
        guard settings.auth == .digest, !settings.bearer.issuers.isEmpty else { return }
        open += 1
        let sources = KeySources(settings.bearer, on: loop)
        keys = sources
        sources.check(settings.bearer) { [self] facts in
            keyFacts = facts
            close()
        }
    }

    /// Finds out in which realm the PBX challenges.
    private func askRealm(_ endpoint: Endpoint, _ transport: Transport, host: String) {
        open += 1
        var probe: PeerProbe?
        let made = PeerProbe(endpoint, transport, by: .register, on: loop) { [self] _ in
            upstreamRealm = probe?.realm
            probe = nil
            close()
        }
        probe = made
        probes.append(made)
        made.start(host: host, domain: settings.domains.first ?? "sippushd.invalid", tls: tls)
    }

    private func ask(
        _ endpoint: Endpoint, _ transport: Transport, as setting: String, _ value: String, host: String
    ) {
        open += 1
        let probe = PeerProbe(endpoint, transport, on: loop) { [self] answer in
            peers.append(
                PeerFact(setting: setting, value: value, endpoint: endpoint, transport: transport, answer: answer))
            close()
        }
        probes.append(probe)
        probe.start(host: host, domain: settings.domains.first ?? "sippushd.invalid", tls: tls)
    }
}
