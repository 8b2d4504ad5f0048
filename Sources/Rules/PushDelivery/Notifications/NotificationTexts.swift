import Bytes
import Timekeeping

/// The maximum sizes of a notification's title and text, in bytes of escaped JSON.
struct TextLimits {
    let title: Int
    let text: Int

    private static let longestTitle = 512
    static let longestText = 4096

    /// Builds a payload whose title and text are cut so that the payload fits into `room` bytes. The title gets at most
    /// its share of the free bytes.
    ///
    /// - Parameters:
    ///   - room: the maximum size of the payload in bytes.
    ///   - titles: how many times the payload contains the title.
    ///   - size: returns the size of a payload in bytes.
    ///   - write: the closure that builds the payload with the given limits.
    /// - Returns: the payload, which exceeds `room` only if even the payload without title and text is too long.
    static func fitting<Payload>(
        _ room: Int, titles: Int, size: (Payload) -> Int, _ write: (TextLimits) -> Payload
    ) -> Payload {
        let bare = write(TextLimits(title: 0, text: 0))
        let left = room - size(bare)
        guard left > 0 else { return bare }
        let title = min(longestTitle, left / (titles + 1))
        let rest = room - size(write(TextLimits(title: title, text: 0)))
        return write(TextLimits(title: title, text: min(longestText, max(0, rest))))
    }
}

extension PayloadContext {
    /// How long the notification is still valid, in whole seconds.
    func life(of notification: PushNotification) -> Int64 {
        let left = (notification.expiresAt - now).components
        return max(0, left.seconds + (left.attoseconds > 0 ? 1 : 0))
    }

    /// The time until which Apple tries to deliver the notification, in Unix seconds; 0 means only one try.
    func expiration(of notification: PushNotification) -> Int64 {
        now < notification.expiresAt ? notification.expiresAt.seconds : 0
    }
}

extension PushNotification {
    /// The value of `type` that distinguishes a notification from a call, for payload formats that define no value.
    var type: String { endedCall?.type ?? (isSilent ? "silent" : "message") }

    var soundName: ByteString { sound.isEmpty ? ByteString("default") : sound }

    /// The payload members for the notification's destination and image, if any.
    var leads: [PayloadField] {
        [("dst", destinationType), ("dsc", destinationContent), ("img", imageURL)].compactMap { name, value in
            value.isEmpty ? nil : PayloadField(name, value, atMost: .max)
        }
    }

    var customField: [PayloadField] { custom.map { [PayloadField("ctm", json: $0.json)] } ?? [] }
}

extension PayloadContext {
    /// Whether the push is a notification that shows nothing, so that its delivery can be delayed. A push about a
    /// call's end is not delayed, because the phone must stop ringing.
    var isSilentNotification: Bool {
        guard case .notification(let notification) = push.message else { return false }
        return notification.isSilent && notification.endedCall == nil
    }

    var endedCall: EndedCallNotice? {
        guard case .notification(let notification) = push.message else { return nil }
        return notification.endedCall
    }
}
