import COpenSSL
import Glibc
package import Timekeeping

/// The source of certificates or a key in PEM form.
package enum PEM: Hashable, Sendable {
    case file(String)
    case bytes([UInt8])

    var name: String {
        switch self {
        case .file(let path): path
        case .bytes: "PEM bytes"
        }
    }

    /// Passes all certificates of the PEM to `body`, in their order; throws if none is found.
    func withCertificates<Result>(
        _ body: ([OpaquePointer]) throws(TLSError) -> Result
    ) throws(TLSError) -> Result {
        let source = try PEMReader(self)
        var certificates: [OpaquePointer] = unsafe []
        defer { unsafe certificates.forEach { unsafe X509_free($0) } }
        while let certificate = unsafe PEM_read_bio_X509(source.bio, nil, nil, nil) {
            unsafe certificates.append(certificate)
        }
        // OpenSSL has left an error in its queue, because it reports the end of the file as an error.
        ERR_clear_error()
        guard unsafe !certificates.isEmpty else {
            throw .unreadable(source: name, reason: "no certificate in PEM form")
        }
        return try unsafe body(certificates)
    }

    /// The expiry date of each certificate, in the order of the certificates in the PEM.
    package func certificateEnds() throws(TLSError) -> [UnixTime] {
        try unsafe withCertificates { certificates throws(TLSError) in
            unsafe certificates.map { certificate in
                var time = unsafe tm()
                unsafe ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time)
                return unsafe UnixTime(seconds: Int64(timegm(&time)))
            }
        }
    }

    /// A digest of each certificate, in the order of the certificates in the PEM.
    func certificateDigests() throws(TLSError) -> [[UInt8]] {
        try unsafe withCertificates { certificates throws(TLSError) in
            var digests: [[UInt8]] = []
            for index in unsafe certificates.indices {
                let certificate = unsafe certificates[index]
                var digest = [UInt8](repeating: 0, count: 32)
                guard unsafe X509_digest(certificate, EVP_sha256(), &digest, nil) == 1 else {
                    throw .library(TLSError.pendingReason())
                }
                digests.append(digest)
            }
            return digests
        }
    }

    func withPrivateKey<Result>(_ body: (OpaquePointer) throws(TLSError) -> Result) throws(TLSError) -> Result {
        let source = try PEMReader(self)
        // The callback returns no pass phrase, so that encrypted keys are refused. Without this callback, OpenSSL would
        // ask for the pass phrase at a terminal.
        guard let key = unsafe PEM_read_bio_PrivateKey(source.bio, nil, { _, _, _, _ in 0 }, nil) else {
            ERR_clear_error()
            throw .unreadable(source: name, reason: "no private key in PEM form that is not encrypted")
        }
        defer { unsafe EVP_PKEY_free(key) }
        return try unsafe body(key)
    }
}

/// The sole owner of an OpenSSL input (BIO), which reads a file or a copy of bytes.
@safe
struct PEMReader: ~Copyable {
    let bio: OpaquePointer

    init(_ source: PEM) throws(TLSError) {
        ERR_clear_error()
        switch source {
        case .file(let path):
            // A folder is refused here, because OpenSSL would report it as an empty file.
            guard unsafe access(path + "/", F_OK) != 0 else {
                throw .unreadable(source: path, reason: unsafe String(cString: strerror(EISDIR)))
            }
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
