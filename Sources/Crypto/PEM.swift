internal import COpenSSL

/// Where certificates or a key in PEM form come from.
package enum PEM: Hashable, Sendable {
    case file(String)
    case bytes([UInt8])

    var name: String {
        switch self {
        case .file(let path): path
        case .bytes: "PEM bytes"
        }
    }

    /// The certificates in their order; at least one.
    func withCertificates<Result>(
        _ body: ([OpaquePointer]) throws(TLSError) -> Result
    ) throws(TLSError) -> Result {
        let source = try PEMReader(self)
        var certificates: [OpaquePointer] = unsafe []
        defer { unsafe certificates.forEach { unsafe X509_free($0) } }
        while let certificate = unsafe PEM_read_bio_X509(source.bio, nil, nil, nil) {
            unsafe certificates.append(certificate)
        }
        // The end of the file is an error to OpenSSL too ("no start line").
        let reason = TLSError.pendingReason()
        guard unsafe !certificates.isEmpty else { throw .unreadable(source: name, reason: reason) }
        return try unsafe body(certificates)
    }

    func withPrivateKey<Result>(_ body: (OpaquePointer) throws(TLSError) -> Result) throws(TLSError) -> Result {
        let source = try PEMReader(self)
        // No pass phrase callback: a daemon has nobody to ask, and OpenSSL's default would read the terminal.
        guard let key = unsafe PEM_read_bio_PrivateKey(source.bio, nil, { _, _, _, _ in 0 }, nil) else {
            throw .unreadable(source: name, reason: TLSError.pendingReason())
        }
        defer { unsafe EVP_PKEY_free(key) }
        return try unsafe body(key)
    }
}

/// Sole owner of a BIO that reads a file or a copy of the bytes.
@safe
private struct PEMReader: ~Copyable {
    let bio: OpaquePointer

    init(_ source: PEM) throws(TLSError) {
        ERR_clear_error()
        switch source {
        case .file(let path):
            guard let bio = unsafe BIO_new_file(path, "r") else {
                throw .unreadable(source: path, reason: TLSError.pendingReason())
            }
            unsafe self.bio = bio
        case .bytes(let bytes):
            guard let bio = unsafe BIO_new(BIO_s_mem()) else { throw .library(TLSError.pendingReason()) }
            let written = unsafe bytes.withUnsafeBytes { unsafe BIO_write(bio, $0.baseAddress, Int32($0.count)) }
            guard written == bytes.count else {
                unsafe BIO_free(bio)
                throw .unreadable(source: source.name, reason: "empty")
            }
            unsafe self.bio = bio
        }
    }

    deinit { unsafe BIO_free(bio) }
}
