package import Addressing
import Bytes
import ProxyPolicy
import ProxyRuntime
import PushDelivery
import Reactor
package import Settings

/// The settings under `events`, for the receiver that gets events of calls, devices and push providers.
package struct EventSettings: SettingsGroup, Hashable {
    package var url: String?
    package var secretFiles: [String] = []
    package var types: [String] = []
    package var node: String?
    package var folder: String?
    package var maximumSize: Int = 64
    package var allowsPlain = false
    package var privateReceivers: [AddressBlock] = []
    package var authorityFile: String?
    package var source: IPAddress?

    package init() {}

    package static let schema: [Setting<EventSettings>] = [
        .value(
            "url", \.url, urlType, example: "\"https://app.example.net/sippushd-events\"",
            "The URL of the receiver to which the daemon posts events. If `url` is not set, the daemon writes and sends no events."
        ),
        .list(
            "secret-files", of: .path, \.secretFiles, example: "[/etc/sippushd/events-secret]",
            "One or two files, each with one secret: whsec_ and the base64 text of 24 to 64 random bytes. Each request has a signature for each secret. To change the secret, add the new file, change the receiver, and then remove the old file."
        ),
        .list(
            "types", of: typeType, \.types, example: "[call.missed, \"device.*\"]",
            "The types of events that the receiver gets, such as `call.missed`, or `call.*` for all types of calls. By default, the receiver gets events of all types. The receiver always gets `events.dropped`."
        ),
        .string(
            "node", \.node, example: "sip1",
            "The name of this daemon in the member source of each event: /sippushd/NODE. By default, `node` is the host name of the machine."
        ),
        .path(
            "folder", \.folder, example: "/var/lib/sippushd/events",
            "The folder in which events wait for the receiver. By default, the folder is beside the store."
        ).taken(.atRestart),
        .integer(
            "max-size", in: 1...1024, \.maximumSize,
            "The maximum size of the waiting events in MiB. One MiB has about 2000 events. If the log is full, the daemon drops the oldest events. Raise `max-size` if the receiver can be away for a long time."
        ),
        .bool("plain-http", \.allowsPlain, "Allow a URL with http instead of https."),
        .list(
            "receivers", of: .addressBlock, \.privateReceivers, example: "[10.1.2.0/24]",
            "Private addresses that the receiver may have. Public addresses are always allowed. Events are never sent to the daemon's own listeners. Events use no proxy, even if `push.proxy` is set."
        ),
        .path(
            "ca-file", \.authorityFile, example: "/etc/sippushd/events-ca.pem",
            "The certificate authorities (PEM) of the receiver. By default, the daemon trusts the system's authorities."
        ),
        .value(
            "source-address", \.source, .address, example: "192.0.2.20",
            "The source address of connections to the receiver. With an IPv4 address here, the daemon reaches the receiver only over IPv4, and with an IPv6 address only over IPv6. By default, the system chooses the source address."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard let url, let parts = CallbackURL(url) else { return [] }
        var found: [SettingComplaint] = []
        if secretFiles.isEmpty || secretFiles.count > 2 {
            found.append(
                SettingComplaint(
                    "expected one file with a secret, or two while the secret changes", key: "secret-files"))
        }
        if !parts.isSecure, !allowsPlain {
            found.append(SettingComplaint("expected a URL with https, or plain-http: true", key: "url"))
        }
        if authorityFile != nil, !parts.isSecure {
            found.append(
                SettingComplaint("expected a url with https, because only https needs authorities", key: "ca-file"))
        }
        if let address = IPAddress(parts.host), !address.isPublic,
            !privateReceivers.contains(where: { $0.contains(address) })
        {
            found.append(
                SettingComplaint("expected \(address) under receivers, because the address is private", key: "url"))
        }
        return found
    }

    private static let urlType = SettingType<String>.checked("URL") { text throws(SettingComplaint) in
        // A user name or password in the URL is refused, because more people can read the settings than the secrets.
        guard CallbackURL(text) != nil else {
            throw SettingComplaint("expected https://HOST:PORT/PATH, without a user name")
        }
    }

    private static let typeType = SettingType<String>.checked("event type") { text throws(SettingComplaint) in
        guard EventType.allCases.contains(where: { matches($0, text) }) else {
            throw SettingComplaint(
                "expected \(EventType.allCases.map(\.rawValue).joined(separator: ", ")), or call.*, device.* or push.*")
        }
    }

    private static func matches(_ type: EventType, _ pattern: String) -> Bool {
        pattern.hasSuffix(".*") ? type.rawValue.hasPrefix(pattern.dropLast()) : type.rawValue == pattern
    }

    /// The types that the receiver gets.
    var wantedTypes: Set<EventType> {
        guard !types.isEmpty else { return Set(EventType.allCases) }
        return Set(EventType.allCases.filter { type in types.contains { Self.matches(type, $0) } })
    }

    /// The host and port of the receiver, for log lines. The path of the URL may be secret.
    var place: String {
        url.flatMap(CallbackURL.init).map { "\($0.isSecure ? "https" : "http")://\($0.host):\($0.port)" } ?? ""
    }

    /// The member `source` of each event.
    var origin: String {
        let name = node ?? HostAddress.name
        let safe = name.utf8.allSatisfy { $0.isNameByte || $0 == UInt8(ascii: ".") }
        return "/sippushd/" + (safe ? name : name.utf8.map { String($0, radix: 16) }.joined())
    }
}
