/// What an `https` URL says about where to connect; only the plain form of it, all else is for libcurl to judge.
struct RequestTarget: Hashable {
    /// Without brackets.
    let host: String
    let port: UInt16
    /// Host and port as the URL writes them.
    let authority: String
    /// The URL up to its path.
    let beginning: String

    private static let scheme = "https://"
    private static let standardPort: UInt16 = 443

    /// `nil` for another scheme, a user name, or a host or port that looks like none.
    init?(_ url: String) {
        let bytes = url.utf8
        guard bytes.starts(with: Self.scheme.utf8) else { return nil }
        let rest = bytes.dropFirst(Self.scheme.utf8.count)
        let end = rest.firstIndex { $0.endsAuthority } ?? rest.endIndex
        let authority = rest[..<end]
        guard !authority.contains(UInt8(ascii: "@")) else { return nil }
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
            port = Self.standardPort
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

    /// Whether the URL goes to the same place by the same words.
    func begins(_ url: String) -> Bool {
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
