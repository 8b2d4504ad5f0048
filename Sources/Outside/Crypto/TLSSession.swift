import COpenSSL
import Glibc

/// The TLS state of one connection. The library that transports the bytes has its own reference to the session: see
/// ``retainedHandle()``.
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

    /// OpenSSL's `SSL` object with an additional reference, which the receiver releases by `SSL_free`.
    @unsafe
    package func retainedHandle() -> UnsafeMutableRawPointer {
        unsafe SSL_up_ref(raw)
        return unsafe UnsafeMutableRawPointer(raw)
    }

    // MARK: The handshake of a server

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

    /// Tells the peer that no more data follow (close_notify), and does not wait for the peer's answer.
    package func shutDown() {
        ERR_clear_error()
        // During the handshake, SSL_shutdown would fail without sending anything.
        guard unsafe SSL_is_init_finished(raw) == 1 else { return }
        unsafe SSL_set_shutdown(raw, SSL_RECEIVED_SHUTDOWN)
        unsafe SSL_shutdown(raw)
        ERR_clear_error()
    }
}
