import COpenSSL

/// A certificate that is being made, and its new P-256 key. The draft is the sole owner of both OpenSSL objects.
@safe
struct CertificateDraft: ~Copyable {
    private let raw: OpaquePointer
    private let key: OpaquePointer

    init() throws(TLSError) {
        ERR_clear_error()
        guard let key = unsafe tls_make_p256_key() else { throw .library(TLSError.pendingReason()) }
        guard let raw = unsafe X509_new() else {
            unsafe EVP_PKEY_free(key)
            throw .library(TLSError.pendingReason())
        }
        unsafe self.key = key
        unsafe self.raw = raw
    }

    deinit {
        unsafe X509_free(raw)
        unsafe EVP_PKEY_free(key)
    }

    /// Sets the common name, the days of validity, the key and a random number. The certificate is its own issuer until
    /// ``issue(by:)`` is called.
    func begin(name: String, days: Int) throws(TLSError) {
        var serial: UInt64 = 0
        unsafe withUnsafeMutableBytes(of: &serial) { _ = unsafe RAND_bytes($0.baseAddress, 8) }
        let days = min(max(days, 0), 36_500)
        guard unsafe X509_set_version(raw, 2) == 1,
            unsafe ASN1_INTEGER_set_uint64(X509_get_serialNumber(raw), serial >> 1) == 1,
            // The certificate is valid from yesterday on, because clocks differ between machines.
            unsafe X509_gmtime_adj(X509_getm_notBefore(raw), -86_400) != nil,
            unsafe X509_gmtime_adj(X509_getm_notAfter(raw), days * 86_400) != nil,
            unsafe X509_set_pubkey(raw, key) == 1
        else { throw .library(TLSError.pendingReason()) }
        let subject = unsafe X509_get_subject_name(raw)
        let common = Array(name.utf8.prefix(64))
        guard unsafe X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, common, Int32(common.count), -1, 0) == 1,
            unsafe X509_set_issuer_name(raw, subject) == 1
        else { throw .library(TLSError.pendingReason()) }
    }

    /// Adds an extension, whose value is written as in OpenSSL's configuration files.
    func add(_ number: Int32, _ value: String) throws(TLSError) { try unsafe add(number, value, issuer: raw) }

    private func add(_ number: Int32, _ value: String, issuer: OpaquePointer) throws(TLSError) {
        var context = unsafe X509V3_CTX()
        unsafe tls_set_extension_issuer(&context, issuer, raw)
        guard let made = unsafe X509V3_EXT_conf_nid(nil, &context, number, value) else {
            throw .library(TLSError.pendingReason())
        }
        defer { unsafe X509_EXTENSION_free(made) }
        guard unsafe X509_add_ext(raw, made, -1) == 1 else { throw .library(TLSError.pendingReason()) }
    }

    /// Signs the certificate with its own key.
    func sign() throws(TLSError) { try unsafe sign(with: key) }

    /// Makes the given authority the issuer, and signs the certificate with the authority's key. The certificate ends
    /// with the authority's certificate at the latest.
    ///
    /// - Throws: an error if the authority's key does not belong to its certificate.
    func issue(by authority: TLSIdentity) throws(TLSError) {
        try unsafe authority.certificate.withCertificates { chain throws(TLSError) in
            let issuer = unsafe chain[0]
            try unsafe authority.key.withPrivateKey { issuerKey throws(TLSError) in
                guard unsafe X509_check_private_key(issuer, issuerKey) == 1 else {
                    ERR_clear_error()
                    throw .keyDoesNotMatchCertificate
                }
                guard unsafe X509_check_ca(issuer) == 1 else {
                    throw .unreadable(source: authority.certificate.name, reason: "not the certificate of an authority")
                }
                guard unsafe X509_set_issuer_name(raw, X509_get_subject_name(issuer)) == 1 else {
                    throw .library(TLSError.pendingReason())
                }
                let end = unsafe X509_get0_notAfter(issuer)
                if unsafe ASN1_TIME_compare(X509_get0_notAfter(raw), end) > 0 {
                    guard unsafe X509_set1_notAfter(raw, end) == 1 else { throw .library(TLSError.pendingReason()) }
                }
                try unsafe add(NID_authority_key_identifier, "keyid,issuer", issuer: issuer)
                try unsafe sign(with: issuerKey)
            }
        }
    }

    private func sign(with key: OpaquePointer) throws(TLSError) {
        guard unsafe X509_sign(raw, key, EVP_sha256()) > 0 else { throw .library(TLSError.pendingReason()) }
    }

    /// The certificate as PEM.
    func certificate() throws(TLSError) -> [UInt8] {
        let raw = unsafe raw
        return try unsafe Self.written { bio in unsafe PEM_write_bio_X509(bio, raw) }
    }

    /// The private key as PEM.
    func privateKey() throws(TLSError) -> [UInt8] {
        let key = unsafe key
        return try unsafe Self.written { bio in unsafe PEM_write_bio_PrivateKey(bio, key, nil, nil, 0, nil, nil) }
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

/// The alternative names of a certificate.
struct SubjectNames {
    /// The names as in OpenSSL's configuration files.
    let text: String

    /// Creates the names from host names and IP addresses.
    init(hosts: [String]) {
        let isAddress = { (host: String) in host.contains(":") || host.allSatisfy { $0.isNumber || $0 == "." } }
        self.init(names: hosts.filter { !isAddress($0) }, addresses: hosts.filter(isAddress))
    }

    init(names: [String], addresses: [String]) {
        text = (names.map { "DNS:\($0)" } + addresses.map { "IP:\($0)" }).joined(separator: ",")
    }
}
