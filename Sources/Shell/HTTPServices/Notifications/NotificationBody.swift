import Bytes
import JSON
import PushDelivery
import Timekeeping

/// A request for a notification as the 10darts platform defines it: the notification and its recipients.
struct NotificationBody {
    let notification: PushNotification
    /// The names of the users who get the notification, as the request has them.
    let users: [String]
    /// The codes of the devices that get the notification.
    let devices: [Substring]

    private static let titleLimit = 1024
    private static let textLimit = 8192
    private static let typeLimit = 256
    private static let contentLimit = 1024
    private static let imageLimit = 2048
    /// The maximum number of users and of devices in one request.
    private static let recipientLimit = 100
    private static let userNameLimit = 512
    private static let life: Int64 = 86_400

    init(_ body: RequestObject, now: UnixTime) throws(ServiceProblem) {
        let life = try body.integer("ttl", in: 0...PushNotification.longestLife.components.seconds) ?? Self.life
        var notification = PushNotification(expiresAt: now + .seconds(life))
        notification.title = ByteString(try body.text("title", atMost: Self.titleLimit))
        notification.text = ByteString(try body.text("message", atMost: Self.textLimit))
        notification.isSilent = try body.flag("is_silent") ?? false
        notification.wantsConfirmation = try body.flag("is_confirmation_needed") ?? false
        notification.countsInBadge = try body.flag("use_in_badge") ?? true
        notification.destinationType = ByteString(try body.text("destination_type", atMost: Self.typeLimit))
        notification.destinationContent = ByteString(try body.text("destination_code", atMost: Self.contentLimit))
        notification.imageURL = try Self.image(body)
        notification.custom = try Self.custom(body)
        guard notification.isSilent || !notification.title.isEmpty || !notification.text.isEmpty else {
            throw ServiceProblem(400, "expected a title or a message", detail: "or is_silent")
        }
        self.notification = notification
        users = try Self.users(body)
        devices = try Self.devices(body)
        guard !users.isEmpty || !devices.isEmpty else {
            throw ServiceProblem(400, "expected users or devices, arrays of 1 to \(Self.recipientLimit) texts")
        }
    }

    private static func image(_ body: RequestObject) throws(ServiceProblem) -> ByteString {
        let url = try body.text("image", atMost: imageLimit)
        guard !url.isEmpty else { return .empty }
        guard url.hasPrefix("https://") || url.hasPrefix("http://"),
            url.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") })
        else { throw ServiceProblem(400, "expected a URL", detail: "image") }
        return ByteString(url)
    }

    private static func custom(_ body: RequestObject) throws(ServiceProblem) -> CustomData? {
        let name = body["custom"] == nil ? "ctm" : "custom"
        guard body["custom"] == nil || body["ctm"] == nil else {
            throw ServiceProblem(400, "expected one of custom and ctm")
        }
        guard let value = body[name] else { return nil }
        guard case .object = value else { throw ServiceProblem(400, "expected an object", detail: name) }
        guard let custom = CustomData(value) else {
            throw ServiceProblem(
                413, "the object is too long for a push", detail: "\(name): \(CustomData.longest) bytes at most")
        }
        return custom
    }

    private static func users(_ body: RequestObject) throws(ServiceProblem) -> [String] {
        let users = try recipients("users", body)
        for user in users where user.isEmpty || user.utf8.count > userNameLimit {
            throw ServiceProblem(400, "expected the name of a user", detail: "users")
        }
        return users
    }

    private static func devices(_ body: RequestObject) throws(ServiceProblem) -> [Substring] {
        var codes: [Substring] = []
        for device in try recipients("devices", body) {
            guard let code = MarkBody.code(in: device) else {
                throw ServiceProblem(400, "expected /api/v1/devices/CODE/", detail: "devices")
            }
            codes.append(code)
        }
        return codes
    }

    private static func recipients(_ name: String, _ body: RequestObject) throws(ServiceProblem) -> [String] {
        guard let value = body[name] else { return [] }
        guard let list = value.array, list.count <= recipientLimit else {
            throw ServiceProblem(400, "expected an array of at most \(recipientLimit) texts", detail: name)
        }
        var texts: [String] = []
        for item in list {
            guard let text = item.string else { throw ServiceProblem(400, "expected texts", detail: name) }
            texts.append(text)
        }
        return texts
    }
}

/// A user in a request, written as `user` or `user@domain`, with or without `sip:`.
struct NamedUser {
    let user: ByteString
    let domain: ByteString?

    init(_ name: String) {
        var text = name[...]
        for scheme in ["sip:", "sips:"] where text.lowercased().hasPrefix(scheme) {
            text = text.dropFirst(scheme.count)
        }
        let at = text.lastIndex(of: "@")
        user = ByteString(text[..<(at ?? text.endIndex)].utf8)
        domain = at.map { ByteString(text[text.index(after: $0)...].utf8) }
    }
}
