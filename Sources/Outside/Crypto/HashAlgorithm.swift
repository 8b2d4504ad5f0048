import COpenSSL

/// The digest algorithms of SIP authentication (RFC 7616, RFC 8760).
package enum HashAlgorithm: Hashable, Sendable, CaseIterable {
    case md5, sha256
    /// SHA-512/256: SHA-512 with other initial values, shortened to 256 bits (FIPS 180-4 section 5.3.6.2).
    case sha512_256

    /// The binary digest of the bytes.
    package func digest(of bytes: Span<UInt8>) -> [UInt8] {
        var context = HashContext(self)
        context.update(bytes)
        return context.finish()
    }

    /// The digest of the bytes in lower-case hexadecimal, which digest authentication compares.
    package func hexDigest(of bytes: Span<UInt8>) -> [UInt8] {
        var context = HashContext(self)
        context.update(bytes)
        return context.finishHex()
    }

    package func digest(of bytes: [UInt8]) -> [UInt8] { digest(of: bytes.span) }
    package func hexDigest(of bytes: [UInt8]) -> [UInt8] { hexDigest(of: bytes.span) }

    /// OpenSSL's object for the algorithm, fetched once per process, because a fetch searches under a lock.
    var implementation: FetchedDigest {
        switch self {
        case .md5: .md5
        case .sha256: .sha256
        case .sha512_256: .sha512_256
        }
    }
}

/// OpenSSL's algorithm object (`EVP_MD`), kept for the life of the process.
///
/// - The type is `@unchecked Sendable`, because a fetched `EVP_MD` is never written again.
@safe
struct FetchedDigest: @unchecked Sendable {
    let pointer: OpaquePointer?

    private init(_ name: String) { unsafe pointer = EVP_MD_fetch(nil, name, nil) }

    static let md5 = FetchedDigest("MD5")
    static let sha256 = FetchedDigest("SHA2-256")
    static let sha512_256 = FetchedDigest("SHA2-512/256")
}
