import Bytes
import Timekeeping

/// The maximum sizes of a notification's title and text, in bytes after escaping.
struct TextLimits {
    let title: Int
    let text: Int

    private static let longestTitle = 512
    static let longestText = 4096

    /// Writes a payload in which title and text are cut to the room that the other members leave. The title gets only a
    /// part of this room.
    ///
    /// - Parameters:
    ///   - room: the maximum size of the payload in bytes.
    ///   - titles: how often the payload contains the title.
    ///   - size: the size of a payload in bytes.
    ///   - write: writes the payload with the given limits.
    /// - Returns: the payload. The payload exceeds `room` if the other members alone exceed it.
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
    /// The remaining lifetime of a notification, in whole seconds.
    func life(of notification: PushNotification) -> Int64 {
        let left = (notification.expiresAt - now).components
        return max(0, left.seconds + (left.attoseconds > 0 ? 1 : 0))
    }

    /// The latest time at which Apple may deliver the notification, in Unix seconds. With 0, Apple delivers it now or
    /// never.
    func expiration(of notification: PushNotification) -> Int64 {
        now < notification.expiresAt ? notification.expiresAt.seconds : 0
    }
}

extension PushNotification {
    /// The value of `type` that distinguishes a notification from a call, in payload formats without a word of their
    /// own.
    var type: String { endedCall?.type ?? (isSilent ? "silent" : "message") }

    var soundName: ByteString { sound.isEmpty ? ByteString("default") : sound }

    /// The members for the destination and the image, if the notification has them.
    var leads: [PayloadField] {
        [("dst", destinationType), ("dsc", destinationContent), ("img", imageURL)].compactMap { name, value in
            value.isEmpty ? nil : PayloadField(name, value, atMost: .max)
        }
    }

    var customField: [PayloadField] { custom.map { [PayloadField("ctm", json: $0.json)] } ?? [] }
}

extension PayloadContext {
    /// Whether the push shows nothing, so that it may be delayed. A push about the end of a call may not be delayed,
    /// because the phone has to stop ringing.
    var isSilentNotification: Bool {
        guard case .notification(let notification) = push.message else { return false }
        return notification.isSilent && notification.endedCall == nil
    }

    var endedCall: EndedCallNotice? {
        guard case .notification(let notification) = push.message else { return nil }
        return notification.endedCall
    }
}
