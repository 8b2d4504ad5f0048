import COpenSSL

/// The names that a certificate has, in lower case.
struct CertificateNames {
    /// The domains of its `sip:` URIs.
    private(set) var domains: [String] = []
    /// Its DNS names, or its common name if it has no alternative names.
    private(set) var hosts: [String] = []

    /// The identities that it certifies in SIP (RFC 5922 section 7.1).
    var forSIP: [String] { domains.isEmpty ? hosts : domains }

    /// - Parameter each: called with each name from OpenSSL.
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
        // A NUL, or any other invalid character, could hide the rest of the name from a comparison.
        let text = unsafe String(decoding: bytes, as: UTF8.self).lowercased()
        guard text.utf8.allSatisfy({ $0 > 32 && $0 < 127 }) else { return }
        guard isURI else { return hosts.append(text) }
        // With a user part it would be the certificate of that user.
        if text.hasPrefix("sip:"), !text.contains("@") { domains.append(String(text.dropFirst(4))) }
    }
}
