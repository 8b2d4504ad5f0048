package import Bytes
package import SIPGrammar

/// The public identity for which a device registers: the canonical form of a `sip:` or `sips:` URI (RFC 3261 section
/// 10.3 step 5).
///
/// The user is percent-decoded and case-sensitive. The host is in lower case. All other parts are dropped. User and
/// host may be slices of a message; take a ``compacted()`` copy of a value that outlives the message.
package struct AddressOfRecord: Hashable, Sendable, CustomStringConvertible {
    package let user: ByteString
    package let host: ByteString

    /// An AOR from parts that are already canonical, such as those of a stored row or a setting.
    package init(user: ByteString, host: ByteString) {
        self.user = user
        self.host = host
    }

    /// The AOR of a To URI or a Request-URI; `nil` for a `tel:` or other URI, and for one without a user.
    package init?(_ uri: SIPURI) {
        guard uri.scheme == .sip || uri.scheme == .sips, let user = uri.user, !user.isEmpty, !uri.host.isEmpty else {
            return nil
        }
        self.init(user: user.percentDecoded(), host: uri.host.lowercased())
    }

    /// The AOR of a URI's text, for header fields that no other code parses.
    package init?(uriText: ByteString) {
        guard let uri = SIPURI(uriText) else { return nil }
        self.init(uri)
    }

    package func compacted() -> AddressOfRecord {
        AddressOfRecord(user: user.compacted(), host: host.compacted())
    }

    package var description: String { "\(user)@\(host)" }
}
