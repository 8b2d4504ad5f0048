package import Bytes

/// A web push subscription. The parameter `pn-prid` has the URL of the web push subscription (RFC 8599 section 12). The
/// parameter `pn-param` can have the keys for payloads, in the form `<p256dh>.<auth>` in base64url.
package struct WebPushToken: Hashable, Sendable {
    /// The keys for encrypting payloads, as the device sent them, without padding. ``WebPushToken`` does not check
    /// whether the public key is a point on the curve.
    package struct Keys: Hashable, Sendable {
        package let publicKey: ByteString
        package let authSecret: ByteString
    }

    /// The URL to which web pushes are posted. The URL of a subscription has a strict form, so that all programs read
    /// the URL in the same way.
    package let url: String
    /// The origin of the URL: `https://host`, and the port unless it is the standard port (RFC 6454).
    package let origin: String
    /// The host of the URL, in lower case.
    package let host: String
    package let port: UInt16
    /// The keys for encrypting payloads; `nil` if pushes to the subscription can have no payload.
    package let keys: Keys?

    /// The maximum length of a subscription's URL in bytes.
    private static let longest = 2048

    /// Parses the push parameters of a web push contact. A URL that is not an `https` URL with one of the given hosts
    /// gives `nil`.
    ///
    /// - Parameters:
    ///   - token: the push parameters; the function does not check the provider in them.
    ///   - hosts: the hosts that the settings allow.
    package init?(_ token: PushToken, allowedAt hosts: [WebPushHost]) {
        self.init(token)
        guard hosts.contains(where: { $0.allows(host, port) }) else { return nil }
    }

    /// Parses the push parameters of a web push contact. A URL that is not an `https` URL in the strict form gives
    /// `nil`. The function does not check whether the settings allow the host.
    init?(_ token: PushToken) {
        let prid = token.prid
        let scheme: StaticString = "https://"
        guard prid.count <= Self.longest, prid.hasPrefix(scheme), prid.isURLText else { return nil }
        let rest = prid[scheme.utf8CodeUnitCount..<prid.count]
        guard let slash = rest.firstIndex(of: UInt8(ascii: "/")) else { return nil }
        var name = rest[0..<slash]
        var port: UInt16? = WebPushHost.standardPort
        if let colon = name.firstIndex(of: UInt8(ascii: ":")) {
            port = HostName.port(name[colon + 1..<name.count])
            name = name[0..<colon]
        }
        guard let port, HostName.isValid(name) else { return nil }
        host = name.string
        self.port = port
        url = prid.string
        origin = "https://\(host)" + (port == WebPushHost.standardPort ? "" : ":\(port)")
        keys = Keys(token.param)
    }
}

extension WebPushToken.Keys {
    /// The lengths of the public key (65 bytes) and of the secret (16 bytes), in base64url characters.
    private static let publicKeyLength = 87
    private static let authSecretLength = 22

    /// Parses the keys in `pn-param`. For a text without keys, the result of parsing is `nil`, because RFC 8599 does
    /// not define `pn-param` for web push.
    init?(_ param: ByteString) {
        let parts = param.parts(separatedBy: UInt8(ascii: "."))
        guard parts.count == 2, let publicKey = Self.text(parts[0], of: Self.publicKeyLength),
            let authSecret = Self.text(parts[1], of: Self.authSecretLength)
        else { return nil }
        self.publicKey = publicKey
        self.authSecret = authSecret
    }

    private static func text(_ text: ByteString, of length: Int) -> ByteString? {
        var end = text.count
        while end > length, text[end - 1] == UInt8(ascii: "=") { end -= 1 }
        guard end == length, text.count <= length + 2 else { return nil }
        let isURLBase64 = text[0..<end].allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "-_".utf8.contains($0) }
        return isURLBase64 ? text[0..<end] : nil
    }
}

extension ByteString {
    /// Whether every character is allowed in a URL without a fragment (RFC 3986): visible ASCII, except characters that
    /// some programs change; two hexadecimal digits follow each `%`.
    var isURLText: Bool {
        withSpan { span in
            for index in span.indices {
                switch span[index] {
                case UInt8(ascii: "%"):
                    guard index + 2 < span.count, span[index + 1].hexValue != nil, span[index + 2].hexValue != nil
                    else { return false }
                case UInt8(ascii: "\""), UInt8(ascii: "#"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\\"),
                    UInt8(ascii: "^"), UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
                    return false
                case 0x21...0x7e: continue
                default: return false
                }
            }
            return true
        }
    }
}
