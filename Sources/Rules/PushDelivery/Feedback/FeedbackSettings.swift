package import Settings

/// A host and a port, in the form `HOST:PORT` of the settings.
package struct HostAndPort: Hashable, Sendable, CustomStringConvertible {
    /// A host name or an IP address, without the brackets of IPv6.
    package let host: String
    package let port: UInt16

    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), port > 0 else {
            return nil
        }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty, host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "/") }) else {
            return nil
        }
        self.host = String(host)
        self.port = port
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// The settings for Apple's feedback service, or for a compatible server.
package struct FeedbackSettings: SettingsGroup, Hashable {
    package var endpoint: HostAndPort?
    package var certFile: String?
    package var certKeyFile: String?
    package var caFile: String?
    package var interval: Duration = .seconds(86_400)

    package init() {}

    private static let hostAndPort = SettingType<HostAndPort>.parsed("host:port") { text throws(SettingComplaint) in
        guard let value = HostAndPort(text) else { throw SettingComplaint("expected HOST:PORT, IPv6 in brackets") }
        return value
    } print: {
        $0.description
    }

    package static let schema: [Setting<FeedbackSettings>] = [
        .value(
            "endpoint", \.endpoint, hostAndPort, example: "feedback.example.net:2196",
            "The feedback server, which lists dead push tokens. Without `endpoint`, the daemon asks no feedback server. Apple switched off its own feedback server in 2021."
        ),
        .path(
            "cert-file", \.certFile, example: "/etc/sippushd/apns-cert.pem",
            "The client certificate, PEM. By default, the daemon uses the certificate of `push.apns`."
        ).taken(.atOnce),
        .path(
            "cert-key-file", \.certKeyFile, example: "/etc/sippushd/apns-key.pem",
            "The certificate's private key, PEM. By default, the daemon uses the key of `push.apns`."
        ).taken(.atOnce),
        .authorities(\.caFile, of: "the feedback server"),
        .duration(
            "interval", in: .seconds(60) ... .seconds(30 * 86_400), \.interval,
            "How often the daemon asks the feedback server for dead push tokens."),
    ]

    package func complaints() -> [SettingComplaint] {
        guard (certFile == nil) != (certKeyFile == nil) else { return [] }
        return [SettingComplaint("expected cert-file and cert-key-file together", key: "cert-file")]
    }
}
