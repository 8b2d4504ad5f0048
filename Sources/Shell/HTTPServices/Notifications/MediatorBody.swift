import HTTPSemantics
import Bytes
import HTTPServer
import JSON
import PushDelivery
import Timekeeping

/// The answer to the sender of a push, in the format of Acrobits' push server. The answer to an accepted push has the
/// code 200; an answer with another code is thrown as an error.
struct MediatorAnswer: Error {
    /// Whether the HTTP status is the answer's code; if false, the HTTP status is always 200.
    var isHTTP = false
    let code: Int
    let response: String

    static func http(_ response: String) -> MediatorAnswer {
        MediatorAnswer(isHTTP: true, code: 400, response: response)
    }

    static func refused(_ response: String) -> MediatorAnswer { MediatorAnswer(code: 400, response: response) }
}

/// A request for one push, as Acrobits' push server defines it.
struct MediatorBody {
    let verb: MediatedMessage.Verb
    let appID, deviceToken: ByteString
    let selector: ByteString?
    let badge: Int?
    private let texts: [Member: String]

    private enum Member: String, CaseIterable {
        case verb, appID = "AppId", deviceToken = "DeviceToken", selector = "Selector", message = "Message"
        case badge = "Badge", sound = "Sound", userName = "UserName", userDisplayName = "UserDisplayName"
        case contentType = "ContentType", id = "Id", threadID = "ThreadId"

        /// The maximum length of the field in bytes.
        var limit: Int {
            switch self {
            case .deviceToken: 2000
            case .message: 8192
            case .verb, .badge, .sound, .contentType: 128
            case .appID, .selector, .userName, .userDisplayName, .id, .threadID: 256
            }
        }

        static let required = [verb, appID, deviceToken]
    }

    static let schema = JSONSchema.object(
        Member.allCases.map { ($0.rawValue, .text((Member.required.contains($0) ? 1 : 0)...$0.limit)) },
        required: Member.required.map(\.rawValue))

    private static let bodyLimit = 16 << 10
    private static let callVerbs = [
        "NotifyIncomingCall", "NotifyIncomingCallMissed", "NotifyIncomingCallAnsweredElsewhere",
    ]

    /// Reads a request for one push in the form of Acrobits' push server. If `isForm` is true, the body is a form as in
    /// Acrobits' older interface; if false, JSON.
    init(_ request: HTTPRequest, isForm: Bool) throws(MediatorAnswer) {
        guard request.body.count <= Self.bodyLimit else { throw .http("the body is too long") }
        let wanted = isForm ? "application/x-www-form-urlencoded" : "application/json"
        guard request.mediaType == wanted else { throw .http("expected \(wanted)") }
        let texts = isForm ? try Self.form(request.body) : try Self.json(request.body)
        func bytes(_ member: Member) -> ByteString { ByteString(texts[member] ?? "") }
        for member in Member.required where (texts[member] ?? "").isEmpty {
            let text = "\(member.rawValue) is missing"
            throw isForm ? .http(text) : .refused(text)
        }
        guard let verb = MediatedMessage.Verb(rawValue: texts[.verb] ?? ""), !verb.isOfCall else {
            let isCall = Self.callVerbs.contains(texts[.verb] ?? "")
            throw .refused(isCall ? "calls come by SIP" : "this verb is not known")
        }
        self.verb = verb
        self.texts = texts
        appID = bytes(.appID)
        // A space in the base64 token must be a plus that the sender did not encode.
        deviceToken = ByteString((texts[.deviceToken] ?? "").replacing(" ", with: "+"))
        selector = bytes(.selector).isEmpty ? nil : bytes(.selector)
        if verb == .text, selector == nil { throw .refused("Selector is missing") }
        if verb == .genericText, (texts[.message] ?? "").isEmpty { throw .refused("Message is missing") }
        if let text = texts[.badge], !text.isEmpty {
            guard let badge = Int(text), (0...99_999).contains(badge) else { throw .refused("Badge is not a number") }
            self.badge = badge
        } else {
            badge = nil
        }
    }

    private static func json(_ body: [UInt8]) throws(MediatorAnswer) -> [Member: String] {
        guard case .object(let members)? = try? JSONValue(body) else { throw .http("expected a JSON object") }
        var texts: [Member: String] = [:]
        for member in members {
            guard let name = Member(rawValue: member.key) else { continue }
            switch member.value {
            case .string(let text): try take(name, text, into: &texts)
            case .number(let text) where name == .badge: try take(name, text, into: &texts)
            case .null: break
            case .number, .bool, .array, .object: throw .refused("\(member.key) is not a text")
            }
        }
        return texts
    }

    private static func form(_ body: [UInt8]) throws(MediatorAnswer) -> [Member: String] {
        var texts: [Member: String] = [:]
        for item in FormText.items(body[...]) {
            if let name = Member(rawValue: item.name) { try take(name, item.value, into: &texts) }
        }
        return texts
    }

    private static func take(
        _ name: Member, _ text: String, into texts: inout [Member: String]
    ) throws(MediatorAnswer) {
        guard text.utf8.count <= name.limit else { throw .refused("\(name.rawValue) is too long") }
        guard texts.updateValue(text, forKey: name) == nil else { throw .refused("\(name.rawValue) is given twice") }
    }

    // MARK: Content

    func notification(now: UnixTime) -> PushNotification {
        var notification = PushNotification(expiresAt: now + Self.life)
        func bytes(_ member: Member) -> ByteString { ByteString(texts[member] ?? "") }
        var message = MediatedMessage(verb)
        message.userName = bytes(.userName)
        message.userDisplayName = bytes(.userDisplayName)
        message.contentType = bytes(.contentType)
        message.id = bytes(.id)
        message.threadID = bytes(.threadID)
        notification.mediated = message
        // Only devices that get pushes directly from this daemon need the title and the fields below.
        notification.title = message.userDisplayName.isEmpty ? message.userName : message.userDisplayName
        notification.text = bytes(.message)
        notification.sound = bytes(.sound)
        notification.badge = badge
        return notification
    }

    private static let life: Duration = .seconds(86_400)
}
