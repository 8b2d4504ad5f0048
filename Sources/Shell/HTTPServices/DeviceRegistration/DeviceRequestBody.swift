import HTTPClient
import HTTPSemantics
import HTTPServer
import JSON
import Persistence

/// The id of an app and its API token, from the body of a device registration request, which has no key in a header
/// field.
struct AppCredentials: Hashable {
    let app: RequestID
    let apiToken: String

    init(_ body: JSONValue) throws(ServiceProblem) {
        guard let app = RequestID(try body.text("MobileAppId")) else {
            throw ServiceProblem(400, "MobileAppId is not a GUID")
        }
        self.app = app
        apiToken = try body.text("ApiToken")
    }
}

/// The body of a request to register one device.
struct RegistrationBody {
    let credentials: AppCredentials
    let user: String
    let platform: DeviceRequest.Platform
    let token: String

    init(_ body: JSONValue) throws(ServiceProblem) {
        credentials = try AppCredentials(body)
        user = try body.text("UserId")
        switch (try body.optionalText("ApnsDeviceToken"), try body.optionalText("FcmDeviceToken")) {
        case (let token?, nil): (platform, self.token) = (.apple, token)
        case (nil, let token?): (platform, self.token) = (.google, token)
        case (nil, nil), (_?, _?): throw ServiceProblem(400, "expected ApnsDeviceToken or FcmDeviceToken")
        }
    }
}

/// The body of a request to remove devices of a user.
struct CleanupBody {
    let credentials: AppCredentials
    let user: String
    /// The token of the device to remove; `nil` to remove all devices of the user.
    let token: String?

    init(_ body: JSONValue) throws(ServiceProblem) {
        credentials = try AppCredentials(body)
        user = try body.text("UserId")
        token = try body.optionalText("DeviceToken")
    }
}

/// The body of a request for the status of earlier registrations.
struct StatusBody {
    let credentials: AppCredentials
    let requests: [RequestID]

    private static let limit = 1000

    init(_ body: JSONValue) throws(ServiceProblem) {
        credentials = try AppCredentials(body)
        guard let items = body["RegistrationRequestIds"]?.array, items.count <= Self.limit else {
            throw ServiceProblem(400, "expected RegistrationRequestIds, at most \(Self.limit)")
        }
        var requests: [RequestID] = []
        for item in items {
            guard let id = item.string.flatMap({ RequestID($0) }) else {
                throw ServiceProblem(400, "RegistrationRequestIds contains a text that is not a GUID")
            }
            requests.append(id)
        }
        self.requests = requests
    }
}

extension JSONValue {
    init(bodyOf request: HTTPRequest) throws(ServiceProblem) {
        do throws(JSONError) {
            self = try JSONValue(request.body)
        } catch {
            throw ServiceProblem(400, "the body cannot be read as JSON", detail: "\(error)")
        }
    }

    /// Returns the items of a batch, which has 1 to 100 items.
    func items() throws(ServiceProblem) -> [JSONValue] {
        guard let items = array, (1...Self.batchLimit).contains(items.count) else {
            throw ServiceProblem(400, "expected an array of 1 to \(Self.batchLimit) objects")
        }
        return items
    }

    private static let batchLimit = 100

    fileprivate func text(_ key: String) throws(ServiceProblem) -> String {
        guard let text = try optionalText(key) else { throw ServiceProblem(400, "expected \(key)") }
        return text
    }

    /// Returns the text of a member; `nil` if the member is missing, null or empty, because clients use all three forms
    /// for "none".
    fileprivate func optionalText(_ key: String) throws(ServiceProblem) -> String? {
        guard case .object = self else { throw ServiceProblem(400, "expected an object") }
        switch self[key] {
        case nil, .null: return nil
        case .string(let text): return text.isEmpty ? nil : text
        case .bool, .number, .array, .object: throw ServiceProblem(400, "\(key) is not a text")
        }
    }
}

/// The options of a registration, which are in the header fields of its request.
struct RegistrationFields {
    let isTracked: Bool
    let callbackURL: String?
    /// The header fields that the daemon adds to the webhook request, as a JSON object; empty if the daemon adds none.
    let callbackFields: String

    init(_ request: HTTPRequest) throws(ServiceProblem) {
        isTracked = request.field("x-ms-track-registration")?.lowercased() == "true"
        callbackURL = Self.field(request, "callback-url")
        callbackFields = Self.field(request, "callback-url-headers") ?? ""
        if WebhookFields(callbackFields) == nil {
            throw ServiceProblem(400, "x-ms-callback-url-headers is not a JSON object of texts")
        }
    }

    /// Returns the value of the header field with one of Microsoft's two prefixes. Microsoft's documentation has both
    /// prefixes, and the first prefix has priority.
    private static func field(_ request: HTTPRequest, _ name: String) -> String? {
        for prefix in ["x-ms-", "x-ms-status-"] {
            if let value = request.field(prefix + name), !value.isEmpty { return value }
        }
        return nil
    }
}

/// The header fields that the sender of a registration wants in the webhook request.
struct WebhookFields {
    let headers: [HTTPField]

    private static let limit = 32
    /// The header fields that a client may not set, because they determine the length or the target of an HTTP request.
    private static let reserved: Set<String> = [
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection",
        "proxy-authenticate", "proxy-authorization", "te", "trailer", "upgrade", "http2-settings", "expect",
    ]

    /// Reads the header fields, except reserved fields, from a JSON object of texts; `nil` if the text is malformed, or
    /// a member cannot be a header field.
    init?(_ text: String) {
        guard !text.isEmpty else {
            headers = []
            return
        }
        guard case .object(let members)? = try? JSONValue(Array(text.utf8)), members.count <= Self.limit else {
            return nil
        }
        var headers: [HTTPField] = []
        for member in members {
            guard let value = member.value.string, Self.isName(member.key), Self.isValue(value) else { return nil }
            if !Self.reserved.contains(member.key.lowercased()) { headers.append(HTTPField(member.key, value)) }
        }
        self.headers = headers
    }

    /// Whether the name is a token as RFC 9110 section 5.6.2 defines it.
    private static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy(\.isTokenCharacter)
    }

    private static func isValue(_ value: String) -> Bool {
        value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0 == UInt8(ascii: "\t") }
    }
}
