package import Bytes
package import ProxyPolicy
package import SIPGrammar

/// The number and name of an INVITE's caller, as they appear in pushes (R14, R15, readings A14 to A16).
package struct CallerIdentity: Sendable {
    /// The caller's user name or URI for the push about a call, unless the caller is anonymous.
    package let number: ByteString
    /// The caller's user name or URI for a list of missed calls; `anonymous` for an anonymous caller.
    package let remoteURI: ByteString
    package let displayName: ByteString
    package let isAnonymous: Bool

    package init(_ request: SIPRequest, format: CallerIDFormat) {
        let from = request.from
        isAnonymous = Self.isAnonymous(request)
        let uri = Self.bare(from.uri).withoutHiddenMarks()
        let decoded = (from.uri.user ?? .empty).percentDecoded().withoutHiddenMarks()
        let name = (from.displayName ?? .empty).unquoted().withoutHiddenMarks()
        var block = ByteStringWriter(capacity: decoded.count + name.count)
        let user = decoded.isEmpty ? uri : block.string(decoded)
        number = format == .user ? user : uri
        remoteURI = isAnonymous ? ByteString("anonymous") : format == .uri ? uri : user
        displayName = block.string(name)
    }

    /// Whether the caller asked for privacy, or has an anonymous From (reading A15).
    private static func isAnonymous(_ request: SIPRequest) -> Bool {
        for value in request.frame.values(of: .privacy) {
            for word in value.string.split(whereSeparator: { $0 == ";" || $0 == "," || $0 == " " }) {
                switch word.lowercased() {
                case "id", "user", "header": return true
                default: break
                }
            }
        }
        let uri = request.from.uri
        return uri.host.equalsIgnoringCase("anonymous.invalid") || (uri.user?.equalsIgnoringCase("anonymous") ?? false)
    }

    /// Whether the message has `Privacy: id`, so that P-Asserted-Identity stays inside the trust domain (RFC 3325
    /// section 7).
    package static func wantsIDPrivacy(_ frame: MessageFrame) -> Bool {
        guard frame.contains(.privacy) else { return false }
        return frame.values(of: .privacy).contains { value in
            value.string.split(whereSeparator: { $0 == ";" || $0 == "," || $0.isWhitespace })
                .contains { $0.lowercased() == "id" }
        }
    }

    /// The URI in the value of a header field such as P-Preferred-Identity, in its original spelling.
    package static func uri(of value: ByteString) -> ByteString? {
        guard let start = value.lastIndex(of: UInt8(ascii: "<")) else { return value }
        let rest = value[start + 1..<value.count]
        return rest.firstIndex(of: UInt8(ascii: ">")).map { rest[0..<$0] }
    }

    /// The URI as `scheme:user@host:port`, without parameters and headers; a URI other than sip, sips or tel stays
    /// unchanged.
    private static func bare(_ uri: SIPURI) -> ByteString {
        let scheme: StaticString
        switch uri.scheme {
        case .sip: scheme = "sip:"
        case .sips: scheme = "sips:"
        case .tel: scheme = "tel:"
        case .other: return uri.text.compacted()
        }
        return ByteString(capacity: uri.text.count) { text in
            text.append(scheme)
            if let user = uri.user {
                text.append(user)
                if !uri.host.isEmpty { text.append("@") }
            }
            text.append(uri.host)
            if let port = uri.port {
                text.append(":")
                text.append(decimal: port)
            }
        }
    }
}
