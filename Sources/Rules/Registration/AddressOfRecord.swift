package import Bytes
package import SIPGrammar

/// The public address for which a device registers (AOR): the canonical form of a `sip:` or `sips:` URI (RFC 3261
/// section 10.3 step 5).
///
/// The user of an AOR is percent-decoded and case-sensitive, and the host is in lower case. An AOR consists of user and
/// host only. User and host can be slices of a message; ``compacted()`` makes a copy that does not keep the message in
/// memory.
package struct AddressOfRecord: Hashable, Sendable, CustomStringConvertible {
    package let user: ByteString
    package let host: ByteString

    /// Creates an AOR from a user and a host that are already canonical, for example from the store or a setting.
    package init(user: ByteString, host: ByteString) {
        self.user = user
        self.host = host
    }

    /// Creates the AOR from a To URI or Request-URI; `nil` for another scheme, such as `tel:`, and for a URI without
    /// user.
    package init?(_ uri: SIPURI) {
        guard uri.scheme == .sip || uri.scheme == .sips, let user = uri.user, !user.isEmpty, !uri.host.isEmpty else {
            return nil
        }
        self.init(user: user.percentDecoded(), host: uri.host.lowercased())
    }

    /// Creates the AOR from a URI in text form, for header fields that the message parser does not parse.
    package init?(uriText: ByteString) {
        guard let uri = SIPURI(uriText) else { return nil }
        self.init(uri)
    }

    package func compacted() -> AddressOfRecord {
        AddressOfRecord(user: user.compacted(), host: host.compacted())
    }

    package var description: String { "\(user)@\(host)" }
}
