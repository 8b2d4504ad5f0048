package import Bytes
import Crypto
import Persistence
package import Settings

/// Apple's push service for an app's tokens, named by its `pn-provider`.
package enum AppleEnvironment: String, Hashable, Sendable, CaseIterable {
    case production = "apns"
    case development = "apns.dev"
}

/// An app whose server registers devices over HTTP.
package struct MobileAppSettings: SettingsGroup, Hashable {
    /// The MobileAppId: a GUID in lower case.
    package var id: String?
    package var organisation: String?
    /// The SHA-256 hash of each API token; each hash has 32 bytes.
    package var tokenHashes: [[UInt8]] = []
    package var user = UserTemplate.plain
    package var appleEnvironment = AppleEnvironment.production
    package var appleParam: String?
    package var googleParam: String?

    package init() {}

    package static let schema: [Setting<MobileAppSettings>] = [
        .value(
            "id", \.id, idType, example: "00000000-0000-0000-0000-000000000000",
            "The MobileAppId in requests for this app: a GUID."
        ).required(),
        .string(
            "org", \.organisation, example: "example-org",
            "The organisation in the paths of requests for this app. The daemon ignores the case of the organisation's letters."
        ).required(),
        .list(
            "api-token-sha256", of: hashType, \.tokenHashes,
            example: "[0000000000000000000000000000000000000000000000000000000000000000]",
            "The SHA-256 hash of the ApiToken in requests, as hexadecimal digits: `printf %s TOKEN | sha256sum`. While you replace the ApiToken, list the old and the new hash."
        ).required(),
        .value(
            "user", \.user, UserTemplate.settingType,
            "The address-of-record of a user. The daemon replaces `{{user}}` by the UserId in a request. If the address has no domain, the daemon adds the first entry of the setting `domains`."
        ),
        .choice(
            "apns-provider", \.appleEnvironment,
            "The `pn-provider` of devices that register an ApnsDeviceToken: `apns`, or `apns.dev` for builds from Xcode."
        ),
        .string(
            "apns-param", \.appleParam, example: "TEAM123456.com.example.phone.voip",
            "The `pn-param` of devices that register an ApnsDeviceToken: team, bundle and, after the last dot, `voip` or `remote`."
        ),
        .string(
            "fcm-param", \.googleParam, example: "my-project",
            "The `pn-param` of devices that register an FcmDeviceToken: the project's id or number."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        tokenHashes.isEmpty ? [SettingComplaint("expected at least one hash", key: "api-token-sha256")] : []
    }

    private static let idType = SettingType<String>.parsed("GUID") { text throws(SettingComplaint) in
        guard let id = RequestID(text) else { throw SettingComplaint("expected a GUID") }
        return id.text
    } print: {
        $0
    }

    /// The type of the setting that contains the hash of an ApiToken. An error about a malformed hash does not quote
    /// the value, because the value may be the token itself.
    private static let hashType = SettingType<[UInt8]>(name: "SHA-256") { node throws(SettingMismatch) in
        guard let text = node.text, let hash = Hex.decode(Array(text.utf8)), hash.count == 32 else {
            throw SettingMismatch("expected 64 hexadecimal digits", at: node.position)
        }
        return hash
    } print: {
        String(decoding: Hex.encode($0), as: UTF8.self)
    }
}

/// The template that turns a `UserId` into an address-of-record: a text that contains `{{user}}` once.
package struct UserTemplate: Hashable, Sendable, CustomStringConvertible {
    private let before, after: String

    package static let plain = UserTemplate(before: "", after: "")
    private static let field = "{{user}}"

    private init(before: String, after: String) {
        self.before = before
        self.after = after
    }

    init?(_ text: String) {
        guard let (before, after) = Self.halves(of: text), Self.halves(of: after) == nil,
            (before + after).utf8.allSatisfy(\.isPlainInAddress)
        else { return nil }
        self.init(before: before, after: after)
    }

    private static func halves(of text: String) -> (String, String)? {
        var rest = text[...]
        while !rest.isEmpty {
            if rest.hasPrefix(field) { return (String(text[..<rest.startIndex]), String(rest.dropFirst(field.count))) }
            rest = rest.dropFirst()
        }
        return nil
    }

    /// Returns the address for a UserId; `nil` if the UserId contains characters that have a special meaning in a SIP
    /// URI.
    package func text(for user: String) -> String? {
        guard !user.isEmpty, user.utf8.count <= DeviceRequest.userLimit, user.utf8.allSatisfy(\.isPlainInAddress) else {
            return nil
        }
        return before + user + after
    }

    /// The domain of every user whom the template can name, in lower case; `nil` if the UserId decides about the domain.
    package var domain: ByteString? {
        guard let at = after.lastIndex(of: "@") else { return nil }
        return ByteString(after[after.index(after: at)...].lowercased())
    }

    static let settingType = SettingType<UserTemplate>.parsed("template") { text throws(SettingComplaint) in
        guard let template = UserTemplate(text) else {
            throw SettingComplaint("expected an address that contains {{user}} once")
        }
        return template
    } print: {
        $0.description
    }

    package var description: String { before + Self.field + after }
}

extension UInt8 {
    /// Whether the byte may be in a UserId: RFC 3261's unreserved characters, `+`, and the `@` before a domain.
    fileprivate var isPlainInAddress: Bool {
        isNameByte || ".!~*'()+@".utf8.contains(self)
    }
}
