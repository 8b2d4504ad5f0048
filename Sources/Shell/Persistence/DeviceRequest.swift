import Bytes
import FoundationEssentials
package import Timekeeping

/// The identifier of a device request: a GUID as .NET writes it, with 32 hexadecimal digits in five groups.
package struct RequestID: Hashable, Sendable {
    /// The text of the identifier, in lower case.
    package let text: String

    private static let groups = [8, 4, 4, 4, 12]

    /// Reads a GUID in upper or lower case, without braces.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.utf8.count) == Self.groups,
            parts.allSatisfy({ $0.utf8.allSatisfy { $0.hexValue != nil } })
        else { return nil }
        self.text = text.lowercased()
    }

    private init(random: UUID) { text = random.uuidString.lowercased() }

    /// Creates a new identifier that nobody can guess.
    package static func make() -> RequestID { RequestID(random: UUID()) }
}

/// The reason why a device registration failed, with the reason's name in the device registration API.
package enum DeviceFailure: String, Hashable, Sendable, CaseIterable {
    case duplicateExists = "DuplicateExists"
    case dryRunSendingFailed = "DryRunSendingFailed"
    case deviceTokenTooLong = "DeviceTokenTooLong"
    case failedToStoreDevice = "FailedToStoreDevice"
}

/// The outcome of a device registration or clean-up.
package enum DeviceOutcome: Hashable, Sendable {
    case pending
    case success
    case failed(DeviceFailure)
}

/// The URL to which the daemon posts the outcome of a request, with the signature of the post. The signature is
/// computed when the request arrives, because the API token is not stored.
package struct DeviceCallback: Hashable, Sendable {
    package let url: String
    package let signature: String
    /// The header fields of the webhook request, as the JSON object from the app's request; empty if the app named no
    /// fields.
    package let fields: String

    package init(url: String, signature: String, fields: String) {
        self.url = url
        self.signature = signature
        self.fields = fields
    }
}

/// A mobile app that registered a device, and the user for whom the app registered the device.
package struct MobileOwner: Hashable, Sendable {
    /// The MobileAppId in lower case.
    package let app: String
    package let user: String

    package init(app: String, user: String) {
        self.app = app
        self.user = user
    }
}

/// An accepted, unfinished registration or clean-up of devices.
package struct DeviceRequest: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        case registration
        case cleanup
    }

    package enum Platform: String, Hashable, Sendable {
        case apple = "apns"
        case google = "fcm"
    }

    package let id: RequestID
    package let kind: Kind
    /// The MobileAppId in lower case.
    package let app: String
    package let user: String
    /// The platform of the device's push token: Apple or Google; meaningless in a clean-up.
    package let platform: Platform
    /// The device's push token; empty in a request to clean up all devices of the user.
    package let token: String
    /// Whether the store keeps the outcome for the client's later queries.
    package let isTracked: Bool
    package let callback: DeviceCallback?
    package let acceptedAt: UnixTime

    /// The maximum length of a push token in bytes. A longer token is cut one byte above the limit, so that the request
    /// fails.
    package static let tokenLimit = 4096
    /// The maximum length of a user identifier in bytes.
    package static let userLimit = 256

    package init(
        id: RequestID, kind: Kind, app: String, user: String, platform: Platform, token: String, isTracked: Bool,
        callback: DeviceCallback?, acceptedAt: UnixTime
    ) {
        self.id = id
        self.kind = kind
        self.app = app
        self.user = Self.cut(user, beyond: Self.userLimit)
        self.platform = platform
        self.token = Self.cut(token, beyond: Self.tokenLimit)
        self.isTracked = isTracked
        self.callback = callback
        self.acceptedAt = acceptedAt
    }

    /// A copy of the device request with another push token.
    package func naming(_ token: String) -> DeviceRequest {
        DeviceRequest(
            id: id, kind: kind, app: app, user: user, platform: platform, token: token, isTracked: isTracked,
            callback: callback, acceptedAt: acceptedAt)
    }

    private static func cut(_ text: String, beyond limit: Int) -> String {
        text.utf8.count <= limit ? text : String(decoding: text.utf8.prefix(limit + 1), as: UTF8.self)
    }
}
