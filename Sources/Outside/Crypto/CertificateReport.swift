import COpenSSL
import Glibc
package import Timekeeping

/// The contents of a server's certificate, and the reasons for which clients would refuse it.
package struct CertificateReport: Hashable, Sendable {
    /// The DNS names and SIP domains in the certificate, in lower case.
    package let names: [String]
    package let begins: UnixTime
    package let ends: UnixTime
    /// OpenSSL's reason why a client that trusts the authorities would refuse the certificate or its chain, or `nil`.
    package let chainFault: String?
    /// The requested host names that the certificate does not cover.
    package let missingNames: [String]
    /// Whether the owner may present the certificate to servers, too.
    package let isForClients: Bool

    /// Reads the certificate, and checks that the key belongs to the certificate.
    ///
    /// - Parameters:
    ///   - identity: the certificate with its chain, and the key.
    ///   - names: the host names or addresses that the certificate must cover.
    ///   - authorities: a file of trusted authorities; `nil` for the authorities of the system.
    /// - Throws: an error if a file cannot be read, or if the key belongs to another certificate.
    package init(_ identity: TLSIdentity, for names: [String], authorities: String?) throws(TLSError) {
        _ = try TLSContext.server(identities: [identity])
        self = try unsafe identity.certificate.withCertificates { chain throws(TLSError) in
            unsafe CertificateReport(chain, names, authorities)
        }
    }

    private init(_ chain: [OpaquePointer], _ asked: [String], _ authorities: String?) {
        let own = unsafe chain[0]
        let found = unsafe CertificateNames.collected { function, context in
            unsafe tls_each_name(own, function, context)
        }
        names = found.hosts + found.domains.filter { !found.hosts.contains($0) }
        unsafe begins = Self.time(X509_get0_notBefore(own))
        unsafe ends = Self.time(X509_get0_notAfter(own))
        var pointers: [OpaquePointer?] = unsafe chain.map { unsafe $0 }
        let code = unsafe tls_chain_fault(&pointers, Int32(pointers.count), authorities)
        chainFault = code == X509_V_OK ? nil : unsafe String(cString: X509_verify_cert_error_string(Int(code)))
        unsafe isForClients = X509_check_purpose(own, X509_PURPOSE_SSL_CLIENT, 0) == 1
        missingNames = asked.filter { name in
            unsafe X509_check_host(own, name, 0, 0, nil) != 1 && X509_check_ip_asc(own, name, 0) != 1
        }
    }

    private static func time(_ time: UnsafePointer<ASN1_TIME>?) -> UnixTime {
        var civil = unsafe tm()
        unsafe ASN1_TIME_to_tm(time, &civil)
        return unsafe UnixTime(seconds: Int64(timegm(&civil)))
    }
}
