import Bytes
import Timekeeping

/// The limits in bytes of a notification's texts, counted after escaping.
struct TextLimits {
    let title: Int
    let text: Int

    private static let longestTitle = 512
    static let longestText = 4096

    /// Writes a payload with as much of the texts as fits besides the other members. The title gets at most its share.
    ///
    /// - Parameters:
    ///   - room: the maximum size of the payload in bytes.
    ///   - titles: the number of places of the title in the payload.
    ///   - size: the size of a payload in bytes.
    ///   - write: writes the payload with the given limits.
    /// - Returns: the payload. It exceeds `room` if the other members alone do.
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

    /// The latest time at which Apple may deliver the notification, in Unix seconds. 0: Apple delivers it now or never.
    func expiration(of notification: PushNotification) -> Int64 {
        now < notification.expiresAt ? notification.expiresAt.seconds : 0
    }
}

extension PushNotification {
    /// The `type` that distinguishes this push from a call, in profiles without their own word.
    var type: String { endedCall?.type ?? (isSilent ? "silent" : "message") }

    var soundName: ByteString { sound.isEmpty ? ByteString("default") : sound }

    /// The members for destination and image, if the notification has them.
    var leads: [PayloadField] {
        [("dst", destinationType), ("dsc", destinationContent), ("img", imageURL)].compactMap { name, value in
            value.isEmpty ? nil : PayloadField(name, value, atMost: .max)
        }
    }

    var customField: [PayloadField] { custom.map { [PayloadField("ctm", json: $0.json)] } ?? [] }
}

extension PayloadContext {
    /// Whether the push shows nothing, so that it may be delayed. The end of a call may not, because the phone has to
    /// stop ringing.
    var isSilentNotification: Bool {
        guard case .notification(let notification) = push.message else { return false }
        return notification.isSilent && notification.endedCall == nil
    }

    var endedCall: EndedCallNotice? {
        guard case .notification(let notification) = push.message else { return nil }
        return notification.endedCall
    }
}
