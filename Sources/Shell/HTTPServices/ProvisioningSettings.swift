import Addressing
package import ProxyPolicy
package import Settings

/// The settings under `api.provisioning`: links with which phones set up their accounts.
package struct ProvisioningSettings: SettingsGroup, Hashable {
    package var url: String?
    package var server: NextHop?
    package var life: Duration = .seconds(900)
    package var allowsPlainHTTP = false

    package init() {}

    /// The shortest and the longest life of a link.
    package static let lives: ClosedRange<Duration> = .seconds(60) ... .seconds(7 * 86_400)

    package static let schema: [Setting<ProvisioningSettings>] = [
        .string(
            "url", \.url, example: "https://push.example.net",
            "The URL under which phones reach the HTTP API, without a path at its end unless a reverse proxy adds the path. The links for phones begin with this URL. By default, the URL has https, the host in `advertise` or else the first domain, and the first port of `api.listen`. The default needs `api.cert-file`. Set `url` if the API is behind a reverse proxy."
        ),
        .value(
            "sip-server", \.server, NextHop.settingType, example: "sip:sip.example.net:5061;transport=tls",
            "The SIP server in the accounts that phones take. By default, the server has the host in `advertise` or else the user's domain, and the first tls address of `listen`. Without a tls address, the server has the first tcp or udp address of `listen`. Set `sip-server` if phones reach the daemon under another name or port."
        ),
        .duration(
            "expires", in: lives, \.life,
            "How long a link is valid, if the command or the request names no other time. A shorter time leaves a thief less time; choose a longer time if users get their links by mail."
        ),
        .bool(
            "plain-http", \.allowsPlainHTTP,
            "Allow links with http instead of https. Others in the network can then read the accounts that phones take. Links to a loopback address are always allowed. Set `plain-http` only in closed networks."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard let url else { return [] }
        guard let base = ProvisioningURL(url) else {
            return [SettingComplaint("expected https://HOST or https://HOST:PORT", key: "url")]
        }
        guard base.isProtected || allowsPlainHTTP else {
            return [
                SettingComplaint("expected https, because the links give accounts away; see plain-http", key: "url")
            ]
        }
        return []
    }
}

/// The URL of the HTTP API for phones, without a slash at its end.
package struct ProvisioningURL: Hashable, Sendable {
    package let text: String
    /// Whether nobody else in the network can read the answers: the URL has https, or a loopback host.
    package let isProtected: Bool

    /// Reads a URL of the form `https://HOST[:PORT][/PATH]`; `nil` for any other text, also with a user, a query or a
    /// fragment.
    package init?(_ text: String) {
        let scheme = ["https://", "http://"].first { text.lowercased().hasPrefix($0) }
        guard let scheme else { return nil }
        var rest = text.dropFirst(scheme.count)
        while rest.hasSuffix("/") { rest = rest.dropLast() }
        let authority = rest.prefix { $0 != "/" }
        guard
            rest.utf8.allSatisfy({ byte in
                byte > 0x20 && byte < 0x7f && !"\"#<>?@\\^`{|}".utf8.contains(byte)
            }), let (host, port) = Self.split(authority), rest.utf8.count <= 512
        else { return nil }
        guard port.map({ UInt16($0) != nil }) ?? true else { return nil }
        self.text = scheme + rest
        let isLoopback = host.lowercased() == "localhost" || IPAddress(host)?.isLoopback == true
        isProtected = scheme == "https://" || isLoopback
    }

    /// Splits an authority into its host, with the brackets of IPv6, and its port; `nil` if the host is empty.
    private static func split(_ authority: Substring) -> (host: Substring, port: Substring?)? {
        guard let colon = authority.lastIndex(of: ":"), !authority.hasSuffix("]") else {
            return authority.isEmpty ? nil : (authority, nil)
        }
        let host = authority[..<colon]
        guard !host.isEmpty, host.hasPrefix("[") == host.hasSuffix("]"), host.hasPrefix("[") || !host.contains(":")
        else { return nil }
        return (host, authority[authority.index(after: colon)...])
    }
}
