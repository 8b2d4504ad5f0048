package import Bytes
import Crypto
package import Persistence
package import ProxyRuntime
package import Timekeeping

extension StoredMobileApp {
    /// The settings by which the daemon checks requests for a stored app; `nil` if a stored value is missing or
    /// malformed.
    var settings: MobileAppSettings? {
        guard APIKey.isName(name), let id = RequestID(id), !organisation.isEmpty, tokenHash.count == 32,
            let user = UserTemplate(user), let environment = AppleEnvironment(rawValue: appleProvider)
        else { return nil }
        var settings = MobileAppSettings()
        settings.id = id.text
        settings.organisation = organisation
        settings.tokenHashes = [tokenHash]
        settings.user = user
        settings.appleEnvironment = environment
        settings.appleParam = appleParam
        settings.googleParam = googleParam
        return settings
    }
}

extension StoredMobileApp {
    /// The domain of all users of the app; `nil` if requests decide about the domain.
    package var domain: ByteString? { UserTemplate(user)?.domain }
}

/// An operator's request to add a mobile app, with the hash of the ApiToken instead of the token.
package struct AppRequest: Codable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "name": .name, "id": .guid.described("The MobileAppId of requests."),
        "org": .text(1...256).described("The organisation in the path of requests."),
        "hash": .hexadecimal(64).described("SHA-256 of the ApiToken."),
        "user": .words("The SIP address of a UserId; contains `{{user}}` once."),
        "apnsProvider": .choice(AppleEnvironment.allCases.map(\.rawValue)), "apnsParam": .text(0...256),
        "fcmParam": .text(0...256),
    ]

    package var name: String
    package var id: String
    package var org: String
    package var hash: String
    package var user: String?
    package var apnsProvider: String?
    package var apnsParam: String?
    package var fcmParam: String?

    package init(name: String, id: String, org: String, token: AppToken) {
        self.name = name
        self.id = id
        self.org = org
        hash = String(decoding: Hex.encode(token.hash), as: UTF8.self)
    }

    /// Makes a new MobileAppId.
    package static func newID() -> String { RequestID.make().text }

    /// Returns the app of device registration that the store must write.
    ///
    /// - Throws: an error with a sentence for the operator, if a value is malformed.
    package func app(at date: UnixTime) throws(StartError) -> StoredMobileApp {
        guard user.map({ UserTemplate($0) != nil }) ?? true else {
            throw StartError("user must be an address that contains {{user}} once")
        }
        guard apnsProvider.map({ AppleEnvironment(rawValue: $0) != nil }) ?? true else {
            throw StartError("apnsProvider must be apns or apns.dev")
        }
        for text in [org, apnsParam ?? "", fcmParam ?? ""] {
            guard text.utf8.count <= Self.textLimit, text.isPlain(allowingSlash: true) || text.isEmpty else {
                throw StartError("a text is too long or contains control characters")
            }
        }
        let app = StoredMobileApp(
            name: name, id: id.lowercased(), organisation: org, tokenHash: Hex.decode(Array(hash.utf8)) ?? [],
            user: user ?? UserTemplate.plain.description,
            appleProvider: apnsProvider ?? AppleEnvironment.production.rawValue, appleParam: apnsParam,
            googleParam: fcmParam, createdAt: date)
        guard app.settings != nil else {
            throw StartError("expected a name of letters, digits, '-', '_' and '.', a GUID, an organisation and a hash")
        }
        return app
    }

    private static let textLimit = 256
}

/// The ApiToken that an app's server sends: 32 random bytes.
package struct AppToken {
    package let text: String

    /// Creates a new ApiToken. `sippushd app add` shows the text of the token once, and the store has only a hash of
    /// the text.
    package static func make() throws(StartError) -> AppToken {
        do throws(CryptoError) {
            return AppToken(text: String(decoding: Base64.url.encode(try RandomBytes.make(32)), as: UTF8.self))
        } catch {
            throw StartError("cannot get random bytes: \(error)")
        }
    }

    package var hash: [UInt8] { HashAlgorithm.sha256.digest(of: Array(text.utf8)) }
}

/// A mobile app with the values that lists of apps show.
package struct AppReport: Codable, Sendable, DescribedBody {
    package static let schemaName: String? = "App"
    package static let notes: [String: JSONSchema] = [
        "id": .guid, "isFixed": .words("The app is defined in the settings, and no command can remove it."),
    ]

    package var name: String
    package var id: String
    package var org: String
    package var user: String
    package var apnsProvider: String
    package var apnsParam: String?
    package var fcmParam: String?
    package var isFixed: Bool
    /// The time at which the app was added, in Unix seconds; `nil` for an app in the settings.
    package var createdAt: Int64?

    init(_ name: String, _ settings: MobileAppSettings, createdAt: UnixTime?) {
        self.name = name
        id = settings.id ?? ""
        org = settings.organisation ?? ""
        user = settings.user.description
        apnsProvider = settings.appleEnvironment.rawValue
        apnsParam = settings.appleParam
        fcmParam = settings.googleParam
        isFixed = createdAt == nil
        self.createdAt = createdAt?.seconds
    }

    /// Whether a caller with the given domains may see and change the app: all users of the app must be in one of these
    /// domains.
    package func isOf(_ domains: DomainScope) -> Bool {
        domains == .wholeDaemon || UserTemplate(user)?.domain.map(domains.permits) == true
    }

    /// Whether the text is the app's name or id.
    package func isNamed(_ text: String) -> Bool {
        text == name || (!id.isEmpty && text.lowercased() == id.lowercased())
    }
}
