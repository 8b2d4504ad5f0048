import COpenSSL

/// The host names and SIP domains for which a certificate is valid, in lower case.
struct CertificateNames {
    /// The domains of the certificate's `sip:` URIs.
    private(set) var domains: [String] = []
    /// The DNS names of the certificate, or its common name if it has no alternative names.
    private(set) var hosts: [String] = []

    /// The names that identify the certificate's owner in SIP (RFC 5922 section 7.1): the SIP domains or, if the
    /// certificate has none, the DNS names.
    var forSIP: [String] { domains.isEmpty ? hosts : domains }

    /// Collects the names of a certificate from OpenSSL.
    ///
    /// - Parameter each: passes each name of the certificate to the given function.
    /// - Returns: the names.
    @unsafe
    static func collected(_ each: (tls_name_function, UnsafeMutableRawPointer) -> Void) -> CertificateNames {
        let box = Box()
        unsafe each(
            { context, isURI, text, count in
                guard let context = unsafe context else { return }
                let box = unsafe Unmanaged<Box>.fromOpaque(context).takeUnretainedValue()
                unsafe box.names.note(UnsafeBufferPointer(start: text, count: count), isURI: isURI == 1)
            }, Unmanaged.passUnretained(box).toOpaque())
        return box.names
    }

    private final class Box {
        var names = CertificateNames()
    }

    private mutating func note(_ bytes: UnsafeBufferPointer<UInt8>, isURI: Bool) {
        // A name with a character such as NUL is left out, because some programs compare only the part of a name before
        // the NUL.
        let text = unsafe String(decoding: bytes, as: UTF8.self).lowercased()
        guard text.utf8.allSatisfy({ $0 > 32 && $0 < 127 }) else { return }
        guard isURI else { return hosts.append(text) }
        // A URI with a user part certifies only the user, and not the domain.
        if text.hasPrefix("sip:"), !text.contains("@") { domains.append(String(text.dropFirst(4))) }
    }
}
