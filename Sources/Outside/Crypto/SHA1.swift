import COpenSSL

/// SHA-1, only for the WebSocket handshake (RFC 6455 section 4.2.2), where the digest protects no secret. Code for
/// other purposes uses ``HashAlgorithm``.
package enum SHA1 {
    package static func digest(of bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 20)
        _ = unsafe COpenSSL.SHA1(bytes, bytes.count, &digest)
        return digest
    }
}
