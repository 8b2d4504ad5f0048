import Addressing
import Bytes
import HTTPClient

/// A callback URL in the only accepted form: ASCII, http or https, no user name, and a host that is a name or a
/// complete address.
///
/// The daemon builds the URL of a webhook from the parsed parts, so that all programs read the URL in the same way.
struct CallbackURL: Hashable {
    let isSecure: Bool
    /// The host's name in lower case, or the host's address without brackets.
    let host: String
    let port: UInt16
    private let hasPort: Bool
    /// The path and query, which begin with a slash.
    private let target: String

    private static let limit = 2048

    init?(_ text: String) {
        guard text.utf8.count <= Self.limit, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != 0x5c }),
            let colon = text.firstIndex(of: ":")
        else { return nil }
        switch text[..<colon].lowercased() {
        case "https": isSecure = true
        case "http": isSecure = false
        default: return nil
        }
        let marked = text[text.index(after: colon)...]
        guard marked.hasPrefix("//") else { return nil }
        let rest = marked.dropFirst(2)
        let end = rest.firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? rest.endIndex
        guard let (host, port) = Self.authority(rest[..<end]) else { return nil }
        self.host = host
        self.port = port ?? (isSecure ? 443 : 80)
        hasPort = port != nil
        let sent = rest[end...].prefix { $0 != "#" }
        target = sent.hasPrefix("/") ? String(sent) : "/" + sent
    }

    /// The URL to which the daemon posts the webhook.
    var text: String {
        let address = IPAddress(host)?.uriHost ?? host
        return "\(isSecure ? "https" : "http")://\(address)\(hasPort ? ":\(port)" : "")\(target)"
    }

    private static func authority(_ text: Substring) -> (host: String, port: UInt16?)? {
        guard !text.contains("@") else { return nil }
        var host = text
        var port: UInt16?
        let bracket = text.lastIndex(of: "]")
        if let colon = text.lastIndex(of: ":"), bracket.map({ $0 < colon }) ?? true {
            let digits = text[text.index(after: colon)...]
            guard (1...5).contains(digits.utf8.count), digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }),
                let number = UInt16(digits), number > 0
            else { return nil }
            port = number
            host = text[..<colon]
        }
        if host.hasPrefix("[") {
            guard let address = IPAddress(host), host.contains(":") else { return nil }
            return (address.description, port)
        }
        if let address = IPAddress(host), address.isV4 { return (address.description, port) }
        return isName(host) ? (host.lowercased(), port) : nil
    }

    /// Whether the host is a name: labels of letters, digits, hyphens and underscores. A name that ends in a number is
    /// refused, because many programs read it as an address in decimal, octal or hexadecimal.
    private static func isName(_ host: Substring) -> Bool {
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        guard host.utf8.count <= 253,
            labels.allSatisfy({ label in
                (1...63).contains(label.utf8.count) && label.utf8.allSatisfy(\.isNameByte)
            }), let last = labels.last?.lowercased()
        else { return false }
        return !last.hasPrefix("0x") && !last.utf8.allSatisfy(\.isASCIIDigit)
    }
}

/// Decides to which addresses the daemon sends webhooks.
struct CallbackGuard: Sendable {
    let allowsPlain: Bool
    private let destinations: DestinationGuard

    /// - Parameters:
    ///   - allowsPlain: whether webhooks may be sent without TLS.
    ///   - allowed: the private addresses that the operator allows.
    init(allowsPlain: Bool, allowed: [AddressBlock]) {
        self.allowsPlain = allowsPlain
        destinations = DestinationGuard(.publicOr(allowed))
    }

    /// Chooses the address to which a webhook is sent.
    ///
    /// - Parameters:
    ///   - addresses: all addresses of the URL's host; if one address is not allowed, the whole host is refused.
    ///   - port: the port of the URL.
    ///   - own: the addresses of the daemon's own listeners.
    /// - Returns: the address for the connection; `nil` if the host has no address or is refused.
    func address(among addresses: [IPAddress], port: UInt16, own: [Endpoint]) -> IPAddress? {
        try? destinations.check(addresses, port: port, own: own).first
    }
}
