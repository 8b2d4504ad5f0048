import COpenSSL

/// A new P-256 key with a certificate that the key itself signed, for sandboxes and tests. A client accepts the
/// certificate if the client's settings name it as a certificate authority.
package struct SelfSignedCertificate: Sendable {
    package let certificate: [UInt8]
    package let key: [UInt8]

    /// Creates a certificate for host names and IP addresses. All hosts become alternative names, and the first host
    /// also becomes the common name. If `validDays` is 0, the certificate has already expired.
    package init(hosts: [String], validDays: Int = 3650) throws(TLSError) {
        let draft = try CertificateDraft()
        try draft.begin(name: hosts.first ?? "localhost", days: validDays)
        try draft.add(NID_subject_alt_name, SubjectNames(hosts: hosts).text)
        try draft.add(NID_basic_constraints, "critical,CA:TRUE")
        try draft.sign()
        certificate = try draft.certificate()
        key = try draft.privateKey()
    }
}

/// Creates private keys as PEM, for sandboxes and tests.
package enum GeneratedKey {
    /// A new RSA key with 2048 bits, like the keys of Google's service accounts.
    package static func rsa() throws(TLSError) -> [UInt8] {
        ERR_clear_error()
        guard let key = unsafe tls_make_rsa_key() else { throw .library(TLSError.pendingReason()) }
        defer { unsafe EVP_PKEY_free(key) }
        return try unsafe CertificateDraft.written { bio in
            unsafe PEM_write_bio_PrivateKey(bio, key, nil, nil, 0, nil, nil)
        }
    }
}
