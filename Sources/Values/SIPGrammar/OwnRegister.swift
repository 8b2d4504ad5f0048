package import Bytes

/// A REGISTER by which this daemon registers a user at another registrar (RFC 3261 section 10.2).
package struct OwnRegister: Sendable {
    /// The domain of the user, which also gives the Request-URI.
    package var domain: ByteString
    /// The user's name, with percent escapes decoded.
    package var user: ByteString
    /// The value of the topmost Via.
    package var via: ByteString
    package var callID: ByteString
    package var cseq: UInt32
    /// The tag of From.
    package var tag: ByteString
    /// The URI of the contact; `nil` to ask only for the stored contacts (RFC 3261 section 10.2.3).
    package var contact: ByteString?
    /// The requested expiry in seconds; 0 ends the binding.
    package var expires: UInt32
    /// The Path URI, with this daemon's address (RFC 3327); `nil` for no Path.
    package var path: ByteString?
    /// The field with the credentials, if any.
    package var credentials: AddedField?

    package init(
        domain: ByteString, user: ByteString, via: ByteString, callID: ByteString, cseq: UInt32, tag: ByteString,
        contact: ByteString?, expires: UInt32, path: ByteString? = nil, credentials: AddedField? = nil
    ) {
        self.domain = domain
        self.user = user
        self.via = via
        self.callID = callID
        self.cseq = cseq
        self.tag = tag
        self.contact = contact
        self.expires = expires
        self.path = path
        self.credentials = credentials
    }

    /// The Request-URI for a domain; the parameter `uri` of the credentials has the same value.
    package static func requestURI(of domain: ByteString) -> ByteString {
        ByteString(capacity: domain.count + 4) { out in
            out.append("sip:")
            out.append(domain)
        }
    }

    package var outgoing: OutgoingRequest {
        OutgoingRequest(
            bytes: bytes, method: .register, cseqNumber: cseq, requestURI: 0..<0, viaRow: 0..<0, fromRow: 0..<0,
            toRow: 0..<0, callIDRow: 0..<0, routeRows: [])
    }

    package var bytes: [UInt8] {
        [UInt8](capacity: 1024) { out in
            out.append("REGISTER sip:")
            out.append(domain)
            out.append(" SIP/2.0\r\n")
            out.append("Via", via)
            out.append("Max-Forwards: 70\r\nFrom: <sip:")
            appendAddress(to: &out)
            out.append(">;tag=")
            out.append(tag)
            out.append("\r\nTo: <sip:")
            appendAddress(to: &out)
            out.append(">\r\n")
            out.append("Call-ID", callID)
            out.append("CSeq: ")
            out.append(decimal: cseq)
            out.append(" REGISTER\r\n")
            if let contact { appendBinding(contact, to: &out) }
            if let credentials { out.append(credentials) }
            out.append("User-Agent: sippushd\r\nContent-Length: 0\r\n\r\n")
        }
    }

    private func appendAddress(to out: inout ByteSink) {
        out.append(user: user)
        out.append("@")
        out.append(domain)
    }

    /// Appends the header fields Contact, Expires and Path. The expiry is written twice, because some registrars read
    /// only Contact, and others only Expires.
    private func appendBinding(_ contact: ByteString, to out: inout ByteSink) {
        out.append("Contact: <")
        out.append(contact)
        out.append(">;expires=")
        out.append(decimal: expires)
        out.append("\r\nExpires: ")
        out.append(decimal: expires)
        out.append("\r\n")
        guard let path else { return }
        // A registrar refuses a Path with 420 unless the request has `Supported: path` (RFC 3327 section 5.1).
        out.append("Supported: path\r\nPath: <")
        out.append(path)
        out.append(">\r\n")
    }
}
