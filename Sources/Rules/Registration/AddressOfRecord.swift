package import Bytes
package import SIPGrammar

/// The public identity a device registers for: the canonical form of a `sip:` or `sips:` URI (RFC 3261 section 10.3
/// step 5).
///
/// The user is percent-decoded and compared with case, the host is in lower case, and everything else is dropped. The
/// parts may be slices of a message, so what outlives the message takes a ``compacted()`` copy.
package struct AddressOfRecord: Hashable, Sendable, CustomStringConvertible {
    package let user: ByteString
    package let host: ByteString

    /// Makes one of parts that are canonical already, such as those of a stored row or a setting.
    package init(user: ByteString, host: ByteString) {
        self.user = user
        self.host = host
    }

    /// The AOR of a URI in To or of a Request-URI; `nil` for a `tel:` or other URI, and for one without a user.
    package init?(_ uri: SIPURI) {
        guard uri.scheme == .sip || uri.scheme == .sips, let user = uri.user, !user.isEmpty, !uri.host.isEmpty else {
            return nil
        }
        self.init(user: user.percentDecoded(), host: uri.host.lowercased())
    }

    /// The AOR of a URI's text, for header fields that nobody else reads.
    package init?(uriText: ByteString) {
        guard let uri = SIPURI(uriText) else { return nil }
        self.init(uri)
    }

    package func compacted() -> AddressOfRecord {
        AddressOfRecord(user: user.compacted(), host: host.compacted())
    }

    package var description: String { "\(user)@\(host)" }
}
