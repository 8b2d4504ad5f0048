import COpenSSL

/// A new P-256 key with a certificate that the key itself signed, for sandboxes and tests. A client accepts the
/// certificate if the client's settings name it as a certificate authority.
package struct SelfSignedCertificate: Sendable {
    package let certificate: [UInt8]
    package let key: [UInt8]

    /// Creates a certificate for host names and IP addresses. All hosts become alternative names, and the first host
    /// also becomes the common name. If `validDays` is 0, the certificate has already expired.
    package init(hosts: [String], validDays: Int = 3650) throws(TLSError) {
        ERR_clear_error()
        guard let key = unsafe tls_make_p256_key() else { throw .library(TLSError.pendingReason()) }
        defer { unsafe EVP_PKEY_free(key) }
        guard let certificate = unsafe X509_new() else { throw .library(TLSError.pendingReason()) }
        defer { unsafe X509_free(certificate) }
        var serial: UInt64 = 0
        unsafe withUnsafeMutableBytes(of: &serial) { _ = unsafe RAND_bytes($0.baseAddress, 8) }
        let days = min(max(validDays, 0), 36_500)
        guard unsafe X509_set_version(certificate, 2) == 1,
            unsafe ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1) == 1,
            // The certificate is valid from yesterday on, because clocks differ between machines.
            unsafe X509_gmtime_adj(X509_getm_notBefore(certificate), -86_400) != nil,
            unsafe X509_gmtime_adj(X509_getm_notAfter(certificate), days * 86_400) != nil,
            unsafe X509_set_pubkey(certificate, key) == 1
        else { throw .library(TLSError.pendingReason()) }

        let name = unsafe X509_get_subject_name(certificate)
        let common = Array((hosts.first ?? "localhost").utf8.prefix(64))
        guard unsafe X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, common, Int32(common.count), -1, 0) == 1,
            unsafe X509_set_issuer_name(certificate, name) == 1
        else { throw .library(TLSError.pendingReason()) }

        let alternatives = hosts.map { host in
            let isAddress = host.contains(":") || host.allSatisfy { $0.isNumber || $0 == "." }
            return isAddress ? "IP:\(host)" : "DNS:\(host)"
        }
        try unsafe Self.add(NID_subject_alt_name, alternatives.joined(separator: ","), to: certificate)
        try unsafe Self.add(NID_basic_constraints, "critical,CA:TRUE", to: certificate)
        guard unsafe X509_sign(certificate, key, EVP_sha256()) > 0 else { throw .library(TLSError.pendingReason()) }

        self.certificate = try unsafe Self.written { bio in unsafe PEM_write_bio_X509(bio, certificate) }
        self.key = try unsafe Self.written { bio in unsafe PEM_write_bio_PrivateKey(bio, key, nil, nil, 0, nil, nil) }
    }

    private static func add(_ extensionID: Int32, _ value: String, to certificate: OpaquePointer) throws(TLSError) {
        var context = unsafe X509V3_CTX()
        unsafe tls_set_extension_issuer(&context, certificate)
        guard let made = unsafe X509V3_EXT_conf_nid(nil, &context, extensionID, value) else {
            throw .library(TLSError.pendingReason())
        }
        defer { unsafe X509_EXTENSION_free(made) }
        guard unsafe X509_add_ext(certificate, made, -1) == 1 else { throw .library(TLSError.pendingReason()) }
    }

    static func written(_ write: (OpaquePointer) -> Int32) throws(TLSError) -> [UInt8] {
        guard let bio = unsafe BIO_new(BIO_s_mem()) else { throw .library(TLSError.pendingReason()) }
        defer { unsafe BIO_free(bio) }
        guard unsafe write(bio) == 1 else { throw .library(TLSError.pendingReason()) }
        var bytes: UnsafeMutablePointer<CChar>?
        let count = unsafe tls_memory(bio, &bytes)
        return unsafe Array(UnsafeRawBufferPointer(start: bytes, count: count))
    }
}

/// Creates private keys as PEM, for sandboxes and tests.
package enum GeneratedKey {
    /// A new RSA key with 2048 bits, like the keys of Google's service accounts.
    package static func rsa() throws(TLSError) -> [UInt8] {
        ERR_clear_error()
        guard let key = unsafe tls_make_rsa_key() else { throw .library(TLSError.pendingReason()) }
        defer { unsafe EVP_PKEY_free(key) }
        return try unsafe SelfSignedCertificate.written { bio in
            unsafe PEM_write_bio_PrivateKey(bio, key, nil, nil, 0, nil, nil)
        }
    }
}
