package import Bytes
package import SIPGrammar

/// The public identity a device registers for: the canonical form of a `sip:` or `sips:` URI (RFC 3261 section 10.3
/// step 5).
///
/// User percent-decoded and compared with case, host in lower case, everything else dropped. Its parts may be slices of
/// a message; what outlives the message takes a ``compacted()`` copy.
package struct AddressOfRecord: Hashable, Sendable, CustomStringConvertible {
    package let user: ByteString
    package let host: ByteString

    /// From parts that are canonical already: a stored row, a setting.
    package init(user: ByteString, host: ByteString) {
        self.user = user
        self.host = host
    }

    /// Of a To or a Request-URI; `nil` for a `tel:` or other URI and for one without a user.
    package init?(_ uri: SIPURI) {
        guard uri.scheme == .sip || uri.scheme == .sips, let user = uri.user, !user.isEmpty, !uri.host.isEmpty else {
            return nil
        }
        self.init(user: user.percentDecoded(), host: uri.host.lowercased())
    }

    /// The same of a URI as it stands in a header field that nobody else reads.
    package init?(uriText: ByteString) {
        guard let uri = URIText.read(uriText) else { return nil }
        self.init(uri)
    }

    package func compacted() -> AddressOfRecord {
        AddressOfRecord(user: user.compacted(), host: host.compacted())
    }

    package var description: String { "\(user)@\(host)" }
}
