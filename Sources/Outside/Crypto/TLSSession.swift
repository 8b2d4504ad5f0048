import COpenSSL
import Glibc

/// The TLS state of one connection. The session reads and writes its records in memory, except for a server's
/// handshake, which uses the socket.
///
/// - The type is `@unchecked Sendable`: after the session was passed to a connection, only the connection's loop uses
///   it.
@safe
package final class TLSSession: @unchecked Sendable {
    private let raw: OpaquePointer
    private let context: TLSContext
    package let isServer: Bool

    init(_ raw: OpaquePointer?, context: TLSContext, isServer: Bool) throws(TLSError) {
        guard let raw = unsafe raw else { throw .library(TLSError.pendingReason()) }
        unsafe self.raw = raw
        self.context = context
        self.isServer = isServer
    }

    deinit { unsafe SSL_free(raw) }

    func expect(host: String, isVerified: Bool) throws(TLSError) {
        let parameters = unsafe SSL_get0_param(raw)
        if unsafe X509_VERIFY_PARAM_set1_ip_asc(parameters, host) == 1 { return }
        ERR_clear_error()
        guard unsafe tls_set_server_name(raw, host) == 1 else { throw .library("not a host name") }
        guard isVerified else { return }
        unsafe SSL_set_hostflags(raw, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        guard unsafe SSL_set1_host(raw, host) == 1 else { throw .library("not a host name") }
    }

    /// Asks the server to resume an earlier session that received a ticket. The function must be called before the
    /// handshake. A TLS 1.3 server sends tickets only after the handshake.
    package func resume(_ earlier: TLSSession) throws(TLSError) {
        guard let ticket = unsafe SSL_get_session(earlier.raw), unsafe SSL_set_session(raw, ticket) == 1 else {
            throw .library(TLSError.pendingReason())
        }
    }

    // MARK: The handshake

    /// The state of a handshake after its last step.
    package enum HandshakeStep: Hashable, Sendable {
        case done
        case wantsInput
        case wantsOutput
        /// The client closed the connection.
        case ended
        /// The connection failed with the given `errno`.
        case broken(Int32)
        /// Client and server could not agree; the text is OpenSSL's reason.
        case failed(String)
    }

    /// Attaches the session to a connected socket, before the first ``shakeHands()``. The caller still owns and closes
    /// the socket.
    ///
    /// - Returns: false if memory is lacking.
    package func accept(on socket: Int32) -> Bool {
        unsafe SSL_set_accept_state(raw)
        return unsafe SSL_set_fd(raw, socket) == 1
    }

    /// Continues the handshake until it ends or must wait for the socket. While the handshake waits, the caller calls
    /// ``shakeHands()`` again when the socket can be read or written.
    package func shakeHands() -> HandshakeStep {
        ERR_clear_error()
        errno = 0
        let result = unsafe SSL_do_handshake(raw)
        return step(after: result)
    }

    /// Lets the session of an accepted connection read and write in memory from now on, after its handshake.
    ///
    /// - Returns: false if memory is lacking.
    package func continueInMemory() -> Bool { unsafe tls_use_records(raw, TLSRecordsMethod.raw) == 1 }

    /// Prepares a handshake that reads and writes in memory.
    ///
    /// - Returns: false if memory is lacking.
    package func beginInMemory() -> Bool {
        unsafe isServer ? SSL_set_accept_state(raw) : SSL_set_connect_state(raw)
        return continueInMemory()
    }

    /// Begins a handshake in memory. The function ``open(_:with:)`` continues the handshake.
    package func shakeHands(with records: TLSRecords) -> HandshakeStep {
        ERR_clear_error()
        return unsafe records.lend(to: raw) { _ in unsafe step(after: SSL_do_handshake(raw)) }
    }

    package var hasShakenHands: Bool { unsafe SSL_is_init_finished(raw) == 1 }

    private func step(after result: Int32) -> HandshakeStep {
        let code = errno
        guard result != 1 else { return .done }
        switch unsafe SSL_get_error(raw, result) {
        case SSL_ERROR_WANT_READ: return .wantsInput
        case SSL_ERROR_WANT_WRITE: return .wantsOutput
        case SSL_ERROR_ZERO_RETURN: return .ended
        case SSL_ERROR_SYSCALL: return code == 0 ? .ended : .broken(code)
        default:
            let error = ERR_get_error()
            ERR_clear_error()
            return .failed(reason(for: error) ?? TLSError.reason(for: error))
        }
    }

    // MARK: Records

    /// The result of decrypting input.
    package struct Opened {
        /// The number of decrypted bytes, which ``TLSRecords/withOpened(_:_:)`` passes on.
        package var count = 0
        /// Why no more bytes were decrypted; usually ``HandshakeStep/wantsInput``.
        package var end = HandshakeStep.wantsInput
    }

    /// Decrypts records, and continues a handshake in memory. OpenSSL keeps the start of an incomplete record until
    /// its rest arrives. Afterwards `records` can have output: records of the handshake, alerts, or new keys.
    ///
    /// - Parameters:
    ///   - input: at most ``TLSRecords/inputLimit`` bytes from the peer.
    ///   - records: the memory for the decrypted bytes and the output.
    /// - Returns: how many bytes were decrypted, and why no more were.
    package func open(_ input: Span<UInt8>, with records: TLSRecords) -> Opened {
        precondition(input.count <= TLSRecords.inputLimit, "more input than the records have room for")
        // Other users of OpenSSL on this thread, such as libcurl, may have left errors.
        if ERR_peek_error() != 0 { ERR_clear_error() }
        return unsafe records.lend(input, to: raw) { plain in
            var opened = Opened()
            // A further call for the rest of an incomplete record would only ask for more input.
            while unsafe records.unreadCount > 0 || SSL_has_pending(raw) == 1 {
                var count = 0
                let room = TLSRecords.plainRoom - opened.count
                let result = unsafe SSL_read_ex(raw, plain + opened.count, room, &count)
                guard result == 1 else {
                    opened.end = step(after: result)
                    return opened
                }
                opened.count += count
            }
            return opened
        }
    }

    /// Encrypts the bytes, and appends the records to the output of `records`.
    ///
    /// - Returns: false if the session has failed.
    package func seal(_ bytes: Span<UInt8>, with records: TLSRecords) -> Bool {
        guard !bytes.isEmpty else { return true }
        if ERR_peek_error() != 0 { ERR_clear_error() }
        return unsafe records.lend(to: raw) { _ in
            unsafe bytes.withUnsafeBytes { bytes in
                var count = 0
                guard unsafe SSL_write_ex(raw, bytes.baseAddress, bytes.count, &count) == 1 else {
                    ERR_clear_error()
                    return false
                }
                return true
            }
        }
    }

    // MARK: After the handshake

    /// The ALPN name on which both sides agreed; `nil` for none.
    package var applicationProtocol: String? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        unsafe SSL_get0_alpn_selected(raw, &name, &length)
        guard let name = unsafe name, length > 0 else { return nil }
        return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }

    /// The TLS version of the session, such as "TLSv1.3".
    package var version: String { unsafe String(cString: SSL_get_version(raw)) }

    /// Why the peer's certificate was refused; `nil` if the certificate was accepted.
    package var verificationFailure: String? {
        let code = unsafe SSL_get_verify_result(raw)
        guard code != X509_V_OK else { return nil }
        return unsafe String(cString: X509_verify_cert_error_string(code))
    }

    /// Whether the peer has presented a certificate of an authority that this side trusts.
    package var hasProvedPeer: Bool {
        guard verificationFailure == nil else { return false }
        return unsafe SSL_get0_peer_certificate(raw) != nil
    }

    /// The names of the peer according to its trusted certificate, in lower case (RFC 5922 section 7.1); empty without
    /// a trusted certificate. The names are the certificate's SIP domains; without SIP domains, its DNS names; without
    /// both, its common name.
    package var peerNames: [String] {
        guard verificationFailure == nil else { return [] }
        return unsafe CertificateNames.collected { found, context in
            unsafe tls_each_peer_name(raw, found, context)
        }.forSIP
    }

    /// Whether the client resumed an earlier session by a ticket.
    package var isResumed: Bool { unsafe SSL_session_reused(raw) == 1 }

    /// OpenSSL's text for an error code; `nil` if the code means no error.
    package func reason(for code: UInt) -> String? {
        verificationFailure.map { "certificate not trusted: \($0)" } ?? (code == 0 ? nil : TLSError.reason(for: code))
    }

    /// Appends a close_notify to the output of `records`, by which the peer learns that no more data follow. The peer's
    /// own close_notify is not awaited.
    package func shutDown(with records: TLSRecords) {
        // During the handshake, SSL_shutdown would fail without sending anything.
        guard hasShakenHands else { return }
        ERR_clear_error()
        unsafe records.lend(to: raw) { _ in
            unsafe SSL_set_shutdown(raw, SSL_RECEIVED_SHUTDOWN)
            unsafe SSL_shutdown(raw)
        }
        ERR_clear_error()
    }
}
