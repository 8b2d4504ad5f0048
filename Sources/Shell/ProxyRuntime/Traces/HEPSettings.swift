import PushDelivery
package import Settings

/// The address of a HEP collector: `udp:HOST:PORT`, `tcp:HOST:PORT` or `tls:HOST:PORT`.
package struct HEPCollector: Hashable, Sendable {
    package enum Link: String, Hashable, Sendable, CaseIterable {
        case udp, tcp, tls
    }

    package let link: Link
    /// The host of the collector: a name or an address; an IPv6 address is without brackets.
    package let host: String
    package let port: UInt16

    package init(link: Link, host: String, port: UInt16) {
        (self.link, self.host, self.port) = (link, host, port)
    }

    package static let settingType = SettingType<HEPCollector>.parsed(
        "transport:host:port"
    ) { text throws(SettingComplaint) in
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let link = Link(rawValue: parts[0].lowercased()),
            let place = HostAndPort(String(parts[1]))
        else { throw SettingComplaint("expected udp, tcp or tls, then :HOST:PORT, IPv6 in brackets") }
        return HEPCollector(link: link, host: place.host, port: place.port)
    } print: {
        $0.description
    }
}

extension HEPCollector: CustomStringConvertible {
    package var description: String { "\(link.rawValue):\(host.contains(":") ? "[\(host)]" : host):\(port)" }
}

/// The settings under `hep`, for the collector that gets a copy of all SIP messages and pushes.
package struct HEPSettings: SettingsGroup, Hashable {
    package var collector: HEPCollector?
    package var id: UInt32 = 0
    package var node: String?
    package var passwordFile: String?
    package var caFile: String?
    package var sample: Int = 100
    package var users: [String] = []
    package var registrations = true
    package var pushes = true
    package var messageBodies = false

    package init() {}

    package static let schema: [Setting<HEPSettings>] = [
        .value(
            "collector", \.collector, HEPCollector.settingType, example: "udp:192.0.2.30:9060",
            "The collector: udp, tcp or tls, then :HOST:PORT. Without `hep.collector`, the daemon sends no copies."
        ),
        .integer(
            "id", in: 0...UInt32.max, \.id,
            "The number by which the HEP collector identifies the daemon (capture id). With `0`, the daemon computes a number from the setting `hep.node`."
        ),
        .string(
            "node", \.node, example: "sip1",
            "The name by which the HEP collector identifies the daemon. By default, `hep.node` is the host name of the machine."
        ),
        .path(
            "password-file", \.passwordFile, example: "credential:hep-password",
            "The file with the key that the collector asks for (authenticate key). Over udp and tcp, the daemon sends the key unencrypted."
        ),
        .path(
            "ca-file", \.caFile, example: "/etc/sippushd/collector-ca.pem",
            "The certificate authorities (PEM) of the collector, for tls. By default, the daemon trusts the system's authorities."
        ),
        .integer(
            "sample", in: 1...100, \.sample,
            "The share of calls that the daemon copies, in percent. The daemon copies all messages of a Call-ID or none."
        ),
        .list(
            "users", \.users, example: "[alice@example.net, \"+37120000000\"]",
            "Copy only the calls and registrations of these users, as user or user@domain. With an empty list, the daemon copies the calls and registrations of all users."
        ),
        .bool(
            "registrations", \.registrations,
            "Whether the daemon copies REGISTER requests and their responses. REGISTERs are most of the SIP traffic."),
        .bool(
            "pushes", \.pushes,
            "Whether the daemon sends the steps of pushes for calls to the collector, as HEP log lines."),
        .bool(
            "message-bodies", \.messageBodies,
            "Whether the texts of messages and other bodies stay readable in copies. With `false`, only session descriptions (SDP) without their keys are readable, and the daemon replaces other bodies by the letter x."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard let collector else { return [] }
        return caFile != nil && collector.link != .tls
            ? [SettingComplaint("expected a collector with tls, because only tls needs authorities", key: "ca-file")]
            : []
    }

    /// The maximum size of the password's file in bytes.
    package static let longestPassword = 1024

    /// The password for the collector without the line end; empty if the settings name no file.
    func password() throws(SettingsError) -> [UInt8] {
        guard let passwordFile else { return [] }
        let bytes = try SettingsFile.bytes(at: passwordFile, limit: Self.longestPassword)
        let end = bytes.lastIndex { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") } ?? -1
        return Array(bytes[...end])
    }
}
