import Bytes
package import Settings

/// A host to which the daemon is allowed to send web pushes, or all hosts below a domain name.
///
/// A phone chooses the URL of its web push subscription, so the list of hosts limits where the daemon sends requests
/// (T12).
package struct WebPushHost: Hashable, Sendable {
    /// The host name in lower case. For a rule about all hosts below a name, `name` is this name without `*.`.
    package let name: String
    package let isSuffix: Bool
    package let port: UInt16

    /// The port that URLs omit: the standard port of HTTPS.
    static let standardPort: UInt16 = 443

    /// The hosts of the push services of today's browsers.
    static let known = [
        WebPushHost("fcm.googleapis.com"), WebPushHost("updates.push.services.mozilla.com"),
        WebPushHost("push.services.mozilla.com", isSuffix: true), WebPushHost("notify.windows.com", isSuffix: true),
        WebPushHost("web.push.apple.com"),
    ]

    private init(_ name: String, isSuffix: Bool = false) {
        self.name = name
        self.isSuffix = isSuffix
        port = Self.standardPort
    }

    /// Parses `host`, `host:port`, `*.suffix` or `*.suffix:port`.
    package init(parsing text: String) throws(SettingComplaint) {
        var rest = text.lowercased()[...]
        isSuffix = rest.hasPrefix("*.")
        if isSuffix { rest = rest.dropFirst(2) }
        var port: UInt16? = Self.standardPort
        if let colon = rest.firstIndex(of: ":") {
            port = HostName.port(ByteString(String(rest[rest.index(after: colon)...])))
            rest = rest[..<colon]
        }
        guard let port, HostName.isValid(ByteString(String(rest))), !isSuffix || rest.contains(".") else {
            throw SettingComplaint("expected a host, host:port, or *.suffix with two names at least")
        }
        name = String(rest)
        self.port = port
    }

    func allows(_ host: String, _ port: UInt16) -> Bool {
        guard port == self.port else { return false }
        return isSuffix ? host.hasSuffix(".\(name)") : host == name
    }

    package static let settingType = SettingType<WebPushHost>.parsed("host") { text throws(SettingComplaint) in
        try WebPushHost(parsing: text)
    } print: { host in
        (host.isSuffix ? "*." : "") + host.name + (host.port == standardPort ? "" : ":\(host.port)")
    }
}

/// Checks host names and ports strictly, so that no other program reads them in a different way.
enum HostName {
    /// Whether the text is a valid host name (RFC 1123): labels of lower-case letters, digits and hyphens, separated by
    /// dots, without a dot at the end.
    static func isValid(_ name: ByteString) -> Bool {
        guard (1...253).contains(name.count) else { return false }
        return name.parts(separatedBy: UInt8(ascii: ".")).allSatisfy(isLabel)
    }

    private static func isLabel(_ label: ByteString) -> Bool {
        let hyphen = UInt8(ascii: "-")
        guard (1...63).contains(label.count), label[0] != hyphen, label[label.count - 1] != hyphen else {
            return false
        }
        return label.allSatisfy { ($0.isASCIILetter && $0 == $0.asciiLowercased) || $0.isASCIIDigit || $0 == hyphen }
    }

    /// Parses a decimal port without leading zeros; `nil` for any other text.
    static func port(_ digits: ByteString) -> UInt16? {
        guard !digits.isEmpty, digits[0] != UInt8(ascii: "0") else { return nil }
        return digits.decimal()
    }
}
