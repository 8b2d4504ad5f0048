import COpenSSL

/// A certificate with its chain, and its private key. The chain begins with the owner's own certificate.
package struct TLSIdentity: Hashable, Sendable {
    package let certificate: PEM
    package let key: PEM

    package init(certificate: PEM, key: PEM) {
        self.certificate = certificate
        self.key = key
    }
}

/// The certificates and rules for TLS sessions: TLS 1.2 and 1.3 with Mozilla's "intermediate" ciphers, no compression,
/// no renegotiation.
///
/// A renewed certificate needs a new context; existing sessions keep their context.
///
/// - The type is `@unchecked Sendable`, because nothing changes the context after its creation, and OpenSSL locks its
///   reference counts.
@safe
package final class TLSContext: @unchecked Sendable {
    private let raw: OpaquePointer
    private let isServer: Bool
    private let verifiesPeer: Bool
    /// The ALPN names, to which OpenSSL's callback has an unretained pointer.
    private let protocols: ProtocolList
    /// The keys of session tickets, and the contexts for further host names. OpenSSL has unretained pointers to both.
    private var tickets: TicketKeys?
    private var choice: CertificateChoice?
    private var others: [TLSContext] = []

    // The ciphers of TLS 1.2; for TLS 1.3, OpenSSL's defaults are Mozilla's recommendation.
    private static let ciphers =
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
        + "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:"
        + "DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:DHE-RSA-CHACHA20-POLY1305"

    private init(isServer: Bool, verifiesPeer: Bool, protocols names: [String]) throws(TLSError) {
        ERR_clear_error()
        guard let raw = unsafe SSL_CTX_new(isServer ? TLS_server_method() : TLS_client_method()) else {
            throw .library(TLSError.pendingReason())
        }
        unsafe self.raw = raw
        self.isServer = isServer
        self.verifiesPeer = verifiesPeer
        protocols = ProtocolList(names)
        guard unsafe tls_require_1_2(raw) == 1, unsafe SSL_CTX_set_cipher_list(raw, Self.ciphers) == 1,
            unsafe tls_set_groups(raw, "X25519:prime256v1:secp384r1") == 1
        else { throw .library(TLSError.pendingReason()) }
        unsafe tls_use_automatic_dh(raw)
        unsafe tls_release_idle_buffers(raw)
        unsafe tls_keep_no_sessions(raw)
        // OpenSSL's default is two tickets, for clients that connect several times at once. A phone connects once.
        unsafe tls_send_one_ticket(raw)
        // A peer may close TCP without close_notify, because SIP and HTTP messages contain their lengths.
        unsafe tls_set_strict_options(raw)
    }

    deinit { unsafe SSL_CTX_free(raw) }

    // MARK: Servers

    /// Creates a TLS context for accepted connections. The argument `certificate` is the server's certificate, followed
    /// by its chain. The argument `protocols` lists ALPN names in the server's order of preference. A client that
    /// supports none of the listed ALPN names is served without ALPN. If `clientAuthority` is set, clients must present
    /// a certificate that the authority issued.
    package static func server(
        certificate: PEM, key: PEM, protocols: [String] = [], clientAuthority: PEM? = nil
    ) throws(TLSError) -> TLSContext {
        try server(
            identities: [TLSIdentity(certificate: certificate, key: key)], protocols: protocols,
            clients: clientAuthority.map { .mustShow($0) } ?? .unknown)
    }

    /// Creates a context for accepted connections, with one certificate for each of several host names. A client that
    /// names a host in the handshake gets the first identity whose certificate covers the host. A client that names
    /// another host gets the first certificate of the list (RFC 6066 section 3).
    package static func server(
        identities: [TLSIdentity], protocols: [String] = [], clients: ClientCertificates = .unknown,
        tickets: TicketKeys? = nil
    ) throws(TLSError) -> TLSContext {
        var contexts: [TLSContext] = []
        for identity in identities {
            let context = try TLSContext(isServer: true, verifiesPeer: clients != .unknown, protocols: protocols)
            try context.use(certificate: identity.certificate, key: identity.key)
            try context.take(clients)
            context.offerProtocols()
            if let tickets { context.seal(with: tickets) }
            contexts.append(context)
        }
        guard let first = contexts.first else { throw .library("no certificate") }
        if contexts.count > 1 { first.serve(contexts) }
        return first
    }

    /// Whether the server asks clients for a certificate, and which certificates it accepts.
    package enum ClientCertificates: Hashable, Sendable {
        case unknown
        /// Clients may send a certificate. A certificate identifies the client if the given authority issued it; any
        /// other certificate is ignored.
        case mayShow(PEM)
        /// Clients must present a certificate that the given authority issued.
        case mustShow(PEM)
    }

    private func take(_ clients: ClientCertificates) throws(TLSError) {
        switch clients {
        case .unknown: break
        case .mayShow(let authority):
            try trust(authority)
            // The handshake accepts any client certificate; the session remembers whether the certificate is valid.
            unsafe SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, { _, _ in 1 })
        case .mustShow(let authority):
            try trust(authority)
            unsafe SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        }
        // The session id context depends on the authorities, so that tickets are valid only while the authorities stay
        // the same.
        let name = try clients.sessionContext()
        unsafe SSL_CTX_set_session_id_context(raw, name, UInt32(name.count))
        // A client with a certificate may not resume a session. Each handshake therefore checks the dates of the
        // certificate.
        unsafe tls_open_tickets(raw, mayResume)
    }

    private func offerProtocols() {
        guard !protocols.wire.isEmpty else { return }
        let list = unsafe Unmanaged.passUnretained(protocols).toOpaque()
        unsafe SSL_CTX_set_alpn_select_cb(raw, selectProtocol, list)
    }

    private func seal(with keys: TicketKeys) {
        tickets = keys
        unsafe tls_set_ticket_function(raw, sealTicket, Unmanaged.passUnretained(keys).toOpaque())
    }

    private func serve(_ contexts: [TLSContext]) {
        let names = unsafe CertificateChoice(contexts.map { unsafe $0.raw })
        choice = names
        others = Array(contexts.dropFirst())
        unsafe tls_choose_by_name(raw, chooseCertificate, Unmanaged.passUnretained(names).toOpaque())
    }

    // MARK: Clients

    /// Creates a context for connecting to servers. The argument `authority` replaces the system's certificate
    /// authorities. The arguments `certificate` and `key` identify the client to servers that ask for a certificate. If
    /// `verifiesPeer` is false, the server's certificate is not checked, so anybody can pose as the server.
    package static func client(
        authority: PEM? = nil, certificate: PEM? = nil, key: PEM? = nil, protocols: [String] = [],
        verifiesPeer: Bool = true
    ) throws(TLSError) -> TLSContext {
        let context = try TLSContext(isServer: false, verifiesPeer: verifiesPeer, protocols: protocols)
        if let certificate, let key { try context.use(certificate: certificate, key: key) }
        if let authority {
            try context.trust(authority)
        } else if verifiesPeer {
            guard unsafe SSL_CTX_set_default_verify_paths(context.raw) == 1 else {
                throw .library(TLSError.pendingReason())
            }
        }
        unsafe SSL_CTX_set_verify(context.raw, verifiesPeer ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nil)
        if !protocols.isEmpty {
            let wire = context.protocols.wire
            // SSL_CTX_set_alpn_protos returns 0 for success, unlike other functions of OpenSSL.
            guard unsafe SSL_CTX_set_alpn_protos(context.raw, wire, UInt32(wire.count)) == 0 else {
                throw .library("bad ALPN list")
            }
        }
        return context
    }

    private func use(certificate: PEM, key: PEM) throws(TLSError) {
        try unsafe certificate.withCertificates { certificates throws(TLSError) in
            for index in unsafe certificates.indices {
                let certificate = unsafe certificates[index]
                let code =
                    unsafe index == 0
                    ? SSL_CTX_use_certificate(raw, certificate) : tls_add_chain_certificate(raw, certificate)
                guard code == 1 else { throw .library(TLSError.pendingReason()) }
            }
        }
        try unsafe key.withPrivateKey { key throws(TLSError) in
            guard unsafe SSL_CTX_use_PrivateKey(raw, key) == 1, unsafe SSL_CTX_check_private_key(raw) == 1 else {
                ERR_clear_error()
                throw .keyDoesNotMatchCertificate
            }
        }
    }

    private func trust(_ authority: PEM) throws(TLSError) {
        try unsafe authority.withCertificates { certificates throws(TLSError) in
            for index in unsafe certificates.indices {
                let certificate = unsafe certificates[index]
                guard unsafe X509_STORE_add_cert(SSL_CTX_get_cert_store(raw), certificate) == 1,
                    unsafe SSL_CTX_add_client_CA(raw, certificate) == 1
                else { throw .library(TLSError.pendingReason()) }
            }
        }
    }

    // MARK: Sessions

    /// Creates the session of an accepted connection.
    package func makeServerSession() throws(TLSError) -> TLSSession {
        precondition(isServer, "a client context cannot accept")
        return try unsafe TLSSession(SSL_new(raw), context: self, isServer: true)
    }

    /// Creates the session of a connection to `host`, a name or an IP address, which the server's certificate must
    /// cover.
    package func makeClientSession(host: String) throws(TLSError) -> TLSSession {
        precondition(!isServer, "a server context cannot connect")
        let session = try unsafe TLSSession(SSL_new(raw), context: self, isServer: false)
        try session.expect(host: host, isVerified: verifiesPeer)
        return session
    }
}

/// ALPN names, each preceded by a byte with its length (RFC 7301 section 3.1).
private final class ProtocolList: Sendable {
    let wire: [UInt8]

    init(_ names: [String]) {
        wire = names.flatMap { name in
            precondition((1...255).contains(name.utf8.count), "an ALPN name has 1 to 255 bytes")
            return [UInt8(name.utf8.count)] + Array(name.utf8)
        }
    }
}

extension TLSContext.ClientCertificates {
    /// A digest of the rules for client certificates and of the authorities. OpenSSL resumes a session only if the
    /// session's stored digest equals the context's digest.
    fileprivate func sessionContext() throws(TLSError) -> [UInt8] {
        let (kind, authority): (UInt8, PEM?) =
            switch self {
            case .unknown: (0, nil)
            case .mayShow(let authority): (1, authority)
            case .mustShow(let authority): (2, authority)
            }
        var bytes = [kind]
        for digest in try authority?.certificateDigests() ?? [] { bytes += digest }
        return HashAlgorithm.sha256.digest(of: bytes)
    }
}

/// Whether a client may resume the session of its ticket. The result is 1 if that session had no client certificate,
/// and otherwise 0.
private func mayResume(_ session: OpaquePointer?) -> Int32 {
    guard let session = unsafe session else { return 0 }
    return unsafe SSL_SESSION_get0_peer(session) == nil ? 1 : 0
}

private func selectProtocol(
    _ session: OpaquePointer?, _ selected: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ selectedLength: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?, _ offeredLength: UInt32,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let context = unsafe context, let selected = unsafe selected, let offered = unsafe offered else {
        return SSL_TLSEXT_ERR_NOACK
    }
    let list = unsafe Unmanaged<ProtocolList>.fromOpaque(context).takeUnretainedValue()
    return unsafe list.wire.withUnsafeBufferPointer { ours in
        var result: UnsafeMutablePointer<UInt8>?
        let code = unsafe SSL_select_next_proto(
            &result, selectedLength, ours.baseAddress, UInt32(ours.count), offered, offeredLength)
        guard code == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_NOACK }
        // The pointer into the context's list stays valid, because the list outlives the handshake.
        unsafe selected.pointee = unsafe UnsafePointer(result)
        return SSL_TLSEXT_ERR_OK
    }
}

/// A server's TLS contexts, one for each certificate; the host name in the handshake chooses the context.
@safe
private final class CertificateChoice {
    private let contexts: [OpaquePointer]

    init(_ contexts: [OpaquePointer]) { unsafe self.contexts = contexts }

    func use(for session: OpaquePointer, asked name: UnsafePointer<CChar>) {
        let fitting = unsafe contexts.first { context in
            guard let certificate = unsafe SSL_CTX_get0_certificate(context) else { return false }
            return unsafe X509_check_host(certificate, name, 0, 0, nil) == 1
        }
        if let fitting = unsafe fitting { unsafe SSL_set_SSL_CTX(session, fitting) }
    }
}

private func chooseCertificate(
    _ session: OpaquePointer?, _ alert: UnsafeMutablePointer<Int32>?, _ choice: UnsafeMutableRawPointer?
) -> Int32 {
    guard let session = unsafe session, let choice = unsafe choice, let name = unsafe tls_asked_name(session) else {
        return SSL_TLSEXT_ERR_NOACK
    }
    unsafe Unmanaged<CertificateChoice>.fromOpaque(choice).takeUnretainedValue().use(for: session, asked: name)
    return SSL_TLSEXT_ERR_OK
}
