/// The server that a URL names: scheme, host and port. Unusual URLs are left to libcurl's parser.
package struct RequestTarget: Hashable {
    package let isSecure: Bool
    package let hasUser: Bool
    /// The host without the brackets of an IPv6 address.
    package let host: String
    package let port: UInt16
    /// The host and port exactly as in the URL.
    package let authority: String
    /// The part of the URL before the path.
    package let beginning: String

    /// Parses a URL; `nil` if the scheme is not HTTP or HTTPS, or if host or port is malformed.
    package init?(_ url: String) {
        let bytes = url.utf8
        isSecure = bytes.starts(with: "https://".utf8)
        let scheme = isSecure ? "https://" : "http://"
        guard bytes.starts(with: scheme.utf8) else { return nil }
        let rest = bytes.dropFirst(scheme.utf8.count)
        let end = rest.firstIndex { $0.endsAuthority } ?? rest.endIndex
        let user = rest[..<end].lastIndex(of: UInt8(ascii: "@"))
        hasUser = user != nil
        let authority = user.map { rest[..<end][$0...].dropFirst() } ?? rest[..<end]
        let host: Substring.UTF8View
        let tail: Substring.UTF8View
        if authority.first == UInt8(ascii: "[") {
            guard let close = authority.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            host = authority[..<close].dropFirst()
            tail = authority[authority.index(after: close)...]
        } else {
            let colon = authority.firstIndex(of: UInt8(ascii: ":")) ?? authority.endIndex
            host = authority[..<colon]
            tail = authority[colon...]
        }
        guard !host.isEmpty else { return nil }
        if tail.isEmpty {
            port = isSecure ? 443 : 80
        } else {
            guard tail.first == UInt8(ascii: ":"), let port = UInt16(Substring(tail.dropFirst())), port > 0 else {
                return nil
            }
            self.port = port
        }
        self.host = String(Substring(host))
        self.authority = String(Substring(authority))
        beginning = String(Substring(bytes[..<end]))
    }

    /// The host and port of the server, with the scheme's default port if the URL has none.
    package var server: String { authority.hasSuffix(":\(port)") ? authority : "\(authority):\(port)" }

    /// Whether a URL begins with exactly the target's scheme, host and port.
    package func begins(_ url: String) -> Bool {
        let url = url.utf8.span
        let beginning = beginning.utf8.span
        guard url.count >= beginning.count else { return false }
        for index in beginning.indices where url[index] != beginning[index] { return false }
        return url.count == beginning.count || url[beginning.count].endsAuthority
    }
}

extension UInt8 {
    fileprivate var endsAuthority: Bool {
        self == UInt8(ascii: "/") || self == UInt8(ascii: "?") || self == UInt8(ascii: "#")
    }
}
