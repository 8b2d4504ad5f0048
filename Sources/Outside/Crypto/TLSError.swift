import COpenSSL
import Glibc

/// Why a TLS context or session could not be created, in OpenSSL's words and without key material.
package enum TLSError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A certificate, key or authority cannot be read; `source` is a file name or "PEM bytes".
    case unreadable(source: String, reason: String)
    case keyDoesNotMatchCertificate
    /// OpenSSL failed: memory is lacking, or the host name is invalid.
    case library(String)

    package var description: String {
        switch self {
        case .unreadable(let source, let reason): "\(source): \(reason)"
        case .keyDoesNotMatchCertificate: "the private key does not belong to the certificate"
        case .library(let reason): reason
        }
    }

    /// The text of OpenSSL's oldest pending error. The function empties OpenSSL's error queue.
    static func pendingReason() -> String {
        let code = ERR_get_error()
        ERR_clear_error()
        return reason(for: code)
    }

    private static let systemErrorFlag: UInt = 1 << 31

    static func reason(for code: UInt) -> String {
        guard code != 0 else { return "unknown TLS error" }
        // For a failed system call, the code contains an errno, and OpenSSL has no text.
        if code & systemErrorFlag != 0 {
            return unsafe String(cString: strerror(Int32(truncatingIfNeeded: code & (systemErrorFlag - 1))))
        }
        guard let text = unsafe ERR_reason_error_string(code) else { return "TLS error \(code)" }
        return unsafe String(cString: text)
    }
}
