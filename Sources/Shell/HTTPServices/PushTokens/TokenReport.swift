import HTTPSemantics
import Bytes
import HTTPServer
import JSON
import PushDelivery

/// The report of an app's Push Token Reporter or Account Removal Reporter, read from path, query and body together.
///
/// In the app's settings, operators choose the names and the media type of the values, and where each value is. All
/// these choices are accepted. If a report has a value twice, both values must be equal.
struct TokenReport {
    fileprivate enum Field: String, CaseIterable {
        case username, password, selector
        case callsToken = "token_calls"
        case callsApp = "appid_calls"
        case otherToken = "token_msgs"
        case otherApp = "appid_msgs"

        /// Reads a field's name in upper or lower case, including the names of the app's own variables.
        init?(named name: String) {
            let name = name.lowercased()
            switch name {
            case "pushtokenincomingcall": self = .callsToken
            case "pushappid_incoming_call": self = .callsApp
            case "token", "pushtoken", "pushtokenother": self = .otherToken
            case "appid", "pushappid", "pushappid_other": self = .otherApp
            default: self.init(rawValue: name)
            }
        }

        /// The maximum length in bytes of the report's field.
        var limit: Int { isToken ? 2000 : 256 }
        var isToken: Bool { self == .callsToken || self == .otherToken }

        var meaning: String {
            switch self {
            case .username:
                "`user`, `user@domain` or `sip:user@domain`. Without a domain, the key's only domain is used, otherwise the daemon's first domain."
            case .password: "The user's password, if no key is sent."
            case .selector: "The account on the device."
            case .callsToken: "The token for calls; also `pushTokenIncomingCall`."
            case .callsApp: "The app id of the token for calls; also `pushappid_incoming_call`."
            case .otherToken: "The token for all other pushes; also `pushTokenOther`, `pushToken`, `token`."
            case .otherApp:
                "The app id of the token for all other pushes; also `pushappid_other`, `pushappid`, `appid`."
            }
        }

        /// Whether the texts `null` and `(null)` mean that the field has no value. In a user name or a password, `null`
        /// is an ordinary text.
        var mayBeNull: Bool { self != .username && self != .password }
    }

    private static let bodyLimit = 16 << 10
    private static let itemLimit = 64

    private var values: [Field: String] = [:]
    private var itemCount = 0

    /// Reads a GET request, or a POST request with its body. The array `parameters` has the path parameters: the user
    /// name, the selector, and the token. Further fields may follow the token in the path, separated by `&`.
    init(_ request: HTTPRequest, _ parameters: [String]) throws(ServiceProblem) {
        for (field, value) in zip([Field.username, .selector], parameters) { try take(field, value) }
        if parameters.count > 2 { try take(rest: parameters[2]) }
        for item in request.query { try take(item.name, item.value) }
        if request.method == "POST" { try take(body: request.body, type: request.mediaType) }
    }

    // MARK: Reading

    /// Reads the last path parameter `<token>&appid=...`, which is already decoded.
    private mutating func take(rest: String) throws(ServiceProblem) {
        let items = rest.split(separator: "&", omittingEmptySubsequences: false)
        try take(.otherToken, String(items.first ?? ""))
        for item in items.dropFirst() {
            let sides = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            try take(String(sides.first ?? ""), sides.count == 2 ? String(sides[1]) : "")
        }
    }

    private mutating func take(body: [UInt8], type: String) throws(ServiceProblem) {
        guard body.count <= Self.bodyLimit else { throw ServiceProblem(413, "the body is too long") }
        let text = body.drop(while: \.isSpace)
        guard !text.isEmpty else { return }
        if type == "application/json" || type.hasSuffix("+json") || text.first == UInt8(ascii: "{") {
            try take(json: Array(text))
        } else {
            let end = text.lastIndex { !$0.isSpace } ?? text.startIndex
            for item in FormText.items(text[...end]) { try take(item.name, item.value) }
        }
    }

    private mutating func take(json: [UInt8]) throws(ServiceProblem) {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(json)
        } catch {
            throw ServiceProblem(400, "the body cannot be read as JSON", detail: "\(error)")
        }
        guard case .object(let members) = value else { throw ServiceProblem(400, "expected a JSON object") }
        for member in members {
            switch member.value {
            case .string(let text), .number(let text): try take(member.key, text)
            case .null: try take(member.key, "")
            case .bool, .array, .object:
                guard Field(named: member.key) == nil else {
                    throw ServiceProblem(400, "expected a text", detail: Field(named: member.key)?.rawValue)
                }
                try count()
            }
        }
    }

    private mutating func take(_ name: String, _ value: String) throws(ServiceProblem) {
        try count()
        if let field = Field(named: name) { try take(field, value) }
    }

    private mutating func count() throws(ServiceProblem) {
        itemCount += 1
        guard itemCount <= Self.itemLimit else { throw ServiceProblem(400, "too many fields") }
    }

    private mutating func take(_ field: Field, _ text: String) throws(ServiceProblem) {
        var value = text
        // A space in a base64 token is a plus that the app did not encode. A space at the start of a user name is an
        // unencoded plus of an international telephone number.
        if field.isToken, value.utf8.contains(UInt8(ascii: " ")) { value = value.replacing(" ", with: "+") }
        if field == .username, value.first == " " { value = "+" + value.dropFirst() }
        guard !value.isEmpty, !field.mayBeNull || !["null", "(null)"].contains(value.lowercased()) else { return }
        guard value.utf8.count <= field.limit else {
            throw ServiceProblem(400, "a value is too long", detail: "\(field.rawValue): \(field.limit) bytes at most")
        }
        guard field.accepts(value) else {
            throw ServiceProblem(400, "a value is malformed", detail: field.rawValue)
        }
        guard values[field] == nil || values[field] == value else {
            throw ServiceProblem(400, "a value is given twice and differs", detail: field.rawValue)
        }
        values[field] = value
    }

    // MARK: Its description

    /// Describes an HTTP route that accepts reports: which value can be in the path, the query and the body.
    static func described(_ base: RouteDescription, method: String, pattern: String) -> RouteDescription {
        var description = base
        let names: [(String, Field)] = [("username", .username), ("selector", .selector), ("token", .otherToken)]
        for (name, field) in names.prefix(pattern.count { $0 == "{" }) {
            description = description.path(name, field.meaning, .text(1...field.limit))
        }
        let inPath = names.prefix(pattern.count { $0 == "{" }).map(\.1)
        if method == "GET" {
            for field in Field.allCases where !inPath.contains(field) {
                description = description.query(field.rawValue, field.meaning, field.schema)
            }
        } else {
            for type in ["application/json", "application/x-www-form-urlencoded"] {
                description = description.body(body, type: type, isRequired: inPath.isEmpty)
            }
        }
        return description.answer(200, "The report is stored, or had nothing to store.")
            .problem(404, "The user's domain is not served here.")
            .problem(409, "The push service of this token is switched off here.")
            .problem(422, "The tokens cannot be used.").notStored()
    }

    private static let body = JSONSchema.shared(
        "TokenReport",
        .object(
            Field.allCases.map { field in
                (field.rawValue, (field.mayBeNull ? field.schema.orNull : field.schema).described(field.meaning))
            }, required: []))

    // MARK: Content

    var password: ByteString? { bytes(.password) }

    /// Returns the user name without the domain, and the domain; the domain is `nil` if the report names no domain.
    func account() throws(ServiceProblem) -> (user: ByteString, domain: ByteString?) {
        guard var text = values[.username].map({ $0[...] }) else { throw ServiceProblem(400, "username is missing") }
        for scheme in ["sip:", "sips:"] where text.lowercased().hasPrefix(scheme) {
            text = text.dropFirst(scheme.count)
            // A space after the scheme must be a plus that the app did not encode.
            if text.first == " " { text = "+" + text.dropFirst() }
        }
        guard let at = text.lastIndex(of: "@") else { return (ByteString(text.utf8), nil) }
        let user = text[..<at]
        guard !user.isEmpty else { throw ServiceProblem(400, "username is missing") }
        return (ByteString(user.utf8), ByteString(text[text.index(after: at)...].utf8))
    }

    func tokens(_ form: ReportedTokens.Form) -> ReportedTokens {
        ReportedTokens(
            form: form, calls: ReportedTokens.Part(token: bytes(.callsToken), appID: bytes(.callsApp)),
            other: ReportedTokens.Part(token: bytes(.otherToken), appID: bytes(.otherApp)),
            selector: bytes(.selector) ?? .empty)
    }

    private func bytes(_ field: Field) -> ByteString? { values[field].map { ByteString($0) } }
}

extension TokenReport.Field {
    /// The schema of all values that ``accepts(_:)`` accepts, including the empty text.
    fileprivate var schema: JSONSchema {
        switch self {
        case .username, .password: .text(0...limit)
        case .selector: .text(0...limit, pattern: "^[!-~]*$")
        case .callsApp, .otherApp: .text(0...limit, pattern: "^[!-%'-9;-~]*$")
        case .callsToken, .otherToken: .text(0...limit, pattern: "^[A-Za-z0-9+/_=-]*$")
        }
    }

    fileprivate func accepts(_ value: String) -> Bool {
        switch self {
        case .username, .password:
            value.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7f && $0 != "\u{fffd}" }
        case .selector: value.utf8.allSatisfy { (0x21...0x7e).contains($0) }
        // The characters `&` and `:` are refused, because they join names and tokens in the parameters of a contact.
        case .callsApp, .otherApp:
            value.utf8.allSatisfy {
                (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "&") && $0 != UInt8(ascii: ":")
            }
        case .callsToken, .otherToken: value.utf8.allSatisfy(\.isBase64)
        }
    }
}

extension UInt8 {
    fileprivate var isSpace: Bool { self == 32 || self == 9 || self == 10 || self == 13 }

    /// Whether the byte is a character of one of the two base64 alphabets, or padding.
    fileprivate var isBase64: Bool { isNameByte || "+/=".utf8.contains(self) }
}
