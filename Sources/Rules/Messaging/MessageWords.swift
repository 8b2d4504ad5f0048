package import Bytes
package import ProxyPolicy
package import PushDelivery
import Registration
import Routing
package import SIPGrammar
package import Timekeeping

/// Decides whether a waiting request wakes a phone, and writes the text of its push.
package enum MessageWords {
    /// Whether a request wakes phones. Typing notices, receipts and requests that are not urgent wake no phones.
    package static func wakesPhones(_ request: SIPRequest) -> Bool {
        if let type = request.frame.firstValue(of: .contentType) {
            let kind = type[0..<(type.firstIndex(of: UInt8(ascii: ";")) ?? type.count)].trimmed()
            if kind.equalsIgnoringCase("application/im-iscomposing+xml") || kind.equalsIgnoringCase("message/imdn+xml")
            {
                return false
            }
        }
        return !isNonUrgent(request.frame)
    }

    private static func isNonUrgent(_ frame: MessageFrame) -> Bool {
        priority(of: frame)?.equalsIgnoringCase("non-urgent") ?? false
    }

    /// Whether the Priority header field says that the request is urgent (RFC 3261 section 20.26).
    package static func isUrgent(_ request: SIPRequest) -> Bool {
        guard let priority = priority(of: request.frame) else { return false }
        return priority.equalsIgnoringCase("urgent") || priority.equalsIgnoringCase("emergency")
    }

    private static func priority(of frame: MessageFrame) -> ByteString? {
        for field in frame.fields where field.name == .other {
            let row = frame.bytes[field.row]
            guard let colon = row.firstIndex(of: UInt8(ascii: ":")),
                row[0..<colon].trimmed().equalsIgnoringCase("priority")
            else { continue }
            return frame.bytes[field.value].trimmed()
        }
        return nil
    }

    /// The event package of a NOTIFY, in lower case; `nil` if the request is no NOTIFY.
    package static func event(of request: SIPRequest) -> ByteString? {
        guard request.method == .notify else { return nil }
        let value = request.frame.firstValue(of: .event) ?? .empty
        let end = value.firstIndex(of: UInt8(ascii: ";")) ?? value.count
        return value[0..<end].trimmed().lowercased()
    }

    package static func notification(
        of request: SIPRequest, _ settings: MessageSettings, until expiry: UnixTime
    ) -> PushNotification {
        var notification = PushNotification(expiresAt: expiry)
        notification.text = ByteString("New message")
        let caller = CallerIdentity(request, format: .uri)
        var mediated = MediatedMessage(.text)
        mediated.id = request.callID.compacted()
        notification.callID = mediated.id
        if settings.showsWords {
            if !caller.isAnonymous {
                notification.title = caller.displayName.isEmpty ? caller.remoteURI : caller.displayName
                mediated.userName = caller.remoteURI
                mediated.userDisplayName = caller.displayName
            }
            if let words = words(of: request) {
                notification.text = words
                mediated.contentType = ByteString("text/plain")
            }
        }
        notification.mediated = mediated
        return notification
    }

    /// The body of a plain-text MESSAGE; `nil` for encrypted or other content.
    private static func words(of request: SIPRequest) -> ByteString? {
        let body = request.frame.body
        guard request.method == .message, !body.isEmpty,
            let type = request.frame.firstValue(of: .contentType)
        else { return nil }
        let kind = type[0..<(type.firstIndex(of: UInt8(ascii: ";")) ?? type.count)].trimmed()
        guard kind.equalsIgnoringCase("text/plain"), String(validating: body.array, as: UTF8.self) != nil else {
            return nil
        }
        return body.compacted()
    }
}
