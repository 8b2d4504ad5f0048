import COpenSSL

/// A certificate authority with its P-256 key, which issues the certificates of a cluster's nodes.
package struct CertificateAuthority: Sendable {
    private let identity: TLSIdentity

    /// Uses the authority's certificate and private key.
    package init(_ identity: TLSIdentity) { self.identity = identity }

    /// Makes the certificate and the private key of a new authority.
    package static func make(name: String, validDays: Int) throws(TLSError) -> IssuedCertificate {
        let draft = try CertificateDraft()
        try draft.begin(name: name, days: validDays)
        // The authority issues certificates of nodes only, and no certificates of further authorities.
        try draft.add(NID_basic_constraints, "critical,CA:TRUE,pathlen:0")
        try draft.add(NID_key_usage, "critical,keyCertSign,cRLSign")
        try draft.add(NID_subject_key_identifier, "hash")
        try draft.sign()
        return IssuedCertificate(certificate: try draft.certificate(), key: try draft.privateKey())
    }

    /// Issues a certificate with a new key. The certificate is for both sides of TLS connections.
    ///
    /// - Parameters:
    ///   - name: the common name, which is also a DNS name of the certificate.
    ///   - addresses: the IP addresses at which the owner accepts connections.
    ///   - validDays: the days until the certificate expires. The certificate expires with the authority's certificate
    ///     at the latest.
    /// - Returns: the certificate and its key.
    /// - Throws: an error if the authority's files cannot be read, or do not belong together.
    package func issue(
        name: String, addresses: [String], validDays: Int
    ) throws(TLSError) -> IssuedCertificate {
        let draft = try CertificateDraft()
        try draft.begin(name: name, days: validDays)
        try draft.add(NID_basic_constraints, "critical,CA:FALSE")
        try draft.add(NID_key_usage, "critical,digitalSignature")
        try draft.add(NID_ext_key_usage, "serverAuth,clientAuth")
        try draft.add(NID_subject_key_identifier, "hash")
        try draft.add(NID_subject_alt_name, SubjectNames(names: [name], addresses: addresses).text)
        try draft.issue(by: identity)
        return IssuedCertificate(certificate: try draft.certificate(), key: try draft.privateKey())
    }
}

/// A new certificate and its private key, PEM.
package struct IssuedCertificate: Sendable {
    package let certificate: [UInt8]
    package let key: [UInt8]
}
