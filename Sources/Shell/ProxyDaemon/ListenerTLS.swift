import Crypto
import HTTPServices
import ProxyRuntime
import Reactor
import Timekeeping

/// The TLS contexts for SIP, created from the settings at the start and after each reload.
final class ListenerTLS {
    /// The TLS context of SIP listeners; `nil` if the settings name no certificate.
    private(set) var server: TLSContext?
    /// The TLS context of WebSocket listeners; their connections begin with HTTP. The value is `nil` if the settings
    /// name no certificate.
    private(set) var web: TLSContext?
    /// The TLS context of the listener for other nodes; `nil` if the settings name no cluster.
    private(set) var nodes: TLSContext?
    /// The TLS configuration for connections that the daemon opens.
    let setup = TLSSetup()
    private let tickets: TicketKeys
    private var timer: LoopTimer?

    /// The time for which one key encrypts new session tickets; in the next hour, the key only decrypts its tickets.
    private static let ticketLife: Duration = .seconds(3600)

    init(
        _ settings: TLSSettings, cluster: ClusterSettings = ClusterSettings(), on loop: EventLoop
    ) throws(StartError) {
        do {
            tickets = try TicketKeys()
        } catch {
            throw StartError("tls: \(error)")
        }
        try load(settings)
        try load(cluster)
        do {
            let timer = try LoopTimer(on: loop) { [weak self] in self?.rotate() }
            timer.arm(at: SystemClock.now + Self.ticketLife)
            self.timer = timer
        } catch {
            throw StartError("tls: cannot create a timer: \(error)")
        }
    }

    private func rotate() {
        tickets.rotate()
        timer?.arm(at: SystemClock.now + Self.ticketLife)
    }

    /// Reads the TLS certificates and keys for SIP listeners; after an error, the previous ones stay in use.
    func load(_ settings: TLSSettings) throws(StartError) {
        do throws(TLSError) {
            let server = try settings.serverContext(TLSSettings.protocols, tickets)
            let web = try settings.serverContext(["http/1.1"], tickets)
            let client = try settings.clientContext()
            self.server = server
            self.web = web
            setup.changed(client: client)
        } catch {
            throw StartError("tls: \(error)")
        }
    }

    /// Reads the TLS certificates and the key for the links to other nodes; after an error, the previous ones stay in
    /// use.
    func load(_ settings: ClusterSettings) throws(StartError) {
        do throws(TLSError) {
            let server = try settings.serverContext()
            let client = try settings.clientContext()
            nodes = server
            setup.changed(nodes: client)
        } catch {
            throw StartError("cluster: \(error)")
        }
    }
}

extension ClusterSettings {
    /// The own certificate, and the authority of the nodes; `nil` without a cluster.
    private var files: (own: TLSIdentity, authority: PEM)? {
        guard let certFile, let keyFile, let caFile else { return nil }
        return (TLSIdentity(certificate: .file(certFile), key: .file(keyFile)), .file(caFile))
    }

    /// The certificates with which this node asks other nodes; `nil` without a cluster.
    var identity: NodeQuestions.Identity? {
        files.map { NodeQuestions.Identity(own: $0.own, authority: $0.authority) }
    }

    /// The context for connections from other nodes, which must present a certificate of the cluster's authority. The
    /// other node chooses SIP or HTTP by ALPN. No session is resumed, so that each connection checks the certificate.
    fileprivate func serverContext() throws(TLSError) -> TLSContext? {
        guard let (own, authority) = files else { return nil }
        return try TLSContext.server(
            identities: [own], protocols: TLSSettings.protocols + ["http/1.1"], clients: .mustShow(authority))
    }

    /// The context for connections to other nodes, whose certificates must come from the cluster's authority.
    fileprivate func clientContext() throws(TLSError) -> TLSContext? {
        guard let (own, authority) = files else { return nil }
        return try TLSContext.client(
            authority: authority, certificate: own.certificate, key: own.key, protocols: TLSSettings.protocols)
    }
}

extension TLSSettings {
    private var identities: [TLSIdentity] {
        let own = certFile.flatMap { file in keyFile.map { TLSIdentity(certificate: .file(file), key: .file($0)) } }
        let others = certificates.sorted { $0.key < $1.key }.map {
            TLSIdentity(certificate: .file($0.value.certFile), key: .file($0.value.keyFile))
        }
        return (own.map { [$0] } ?? []) + others
    }

    /// The protocol names for ALPN (RFC 7301). For SIP, the IANA registry of ALPN names contains only `sip/2`.
    fileprivate static let protocols = ["sip/2"]

    fileprivate func serverContext(_ protocols: [String], _ tickets: TicketKeys) throws(TLSError) -> TLSContext? {
        guard !identities.isEmpty else { return nil }
        return try TLSContext.server(
            identities: identities, protocols: protocols,
            clients: clientCAFile.map { .mayShow(.file($0)) } ?? .unknown, tickets: tickets)
    }

    func clientContext() throws(TLSError) -> TLSContext {
        let own = identities.first
        return try TLSContext.client(
            authority: caFile.map { .file($0) }, certificate: own?.certificate, key: own?.key,
            protocols: Self.protocols)
    }
}
