import Bytes
import Timekeeping

/// The fields that a template can contain. In a template, the name of a field is between `{{` and `}}`.
package enum HTTPPushField: String, Hashable, Sendable, CaseIterable {
    case token, param, type
    case callRef = "call-ref"
    case callID = "call-id"
    case caller
    case displayName = "display-name"
    case date, sent, badge, ttl
    case pushID = "push-id"
    case nonce
    case calls
    case title, message, image
    case destinationType = "destination-type"
    case destinationCode = "destination-code"
    case custom

    static var names: String { allCases.map(\.rawValue).joined(separator: ", ") }

    /// Whether the field's value is a JSON array or object, which is allowed only in a body.
    var isBodyOnly: Bool { self == .calls || self == .custom }

    /// Whether the value of a field shows a server that a push is a notification and not a call.
    var tellsNotification: Bool { self == .type || self == .title || self == .message }
}

/// The values of the template fields for one push.
struct HTTPPushValues {
    let context: PayloadContext

    /// The maximum sizes in bytes: `textLimit` for the caller's or callee's name or URI, and `listLimit` for a list of
    /// calls.
    private static let textLimit = 1024
    private static let listLimit = 4096

    /// The value of a field as raw bytes, not yet encoded by the template.
    func text(_ field: HTTPPushField) -> ByteString {
        if let number = number(field) { return ByteString("\(number)") }
        let push = context.push
        switch field {
        case .token: return push.token.prid
        case .param: return push.token.param
        case .type:
            switch push.message {
            case .incomingCall: return ByteString("invite")
            case .missedCalls: return ByteString("missed_calls")
            case .silent: return ByteString("silent")
            case .notification(let notification): return ByteString(notification.type)
            }
        case .pushID: return ByteString(context.code.description)
        case .nonce: return push.nonce ?? .empty
        case .callRef:
            return (call?.callRef ?? context.endedCall?.call.callRef).map { ByteString($0.description) } ?? .empty
        case .callID:
            // A Call-ID above the limit is omitted, because a cut Call-ID would match no INVITE.
            guard let callID = context.wholeCallID, callID.count <= Self.textLimit else { return .empty }
            return callID
        case .caller: return caller.cut(to: Self.textLimit)
        case .displayName:
            guard let call, !call.isNameless else { return .empty }
            return call.displayName.cut(to: Self.textLimit)
        case .calls: return ByteString(calls)
        case .title: return notification?.title ?? .empty
        case .message: return notification?.text ?? .empty
        case .image: return notification?.imageURL ?? .empty
        case .destinationType: return notification?.destinationType ?? .empty
        case .destinationCode: return notification?.destinationContent ?? .empty
        case .custom: return ByteString(custom)
        case .date, .sent, .badge, .ttl: return .empty
        }
    }

    func number(_ field: HTTPPushField) -> Int64? {
        switch field {
        case .sent: context.now.seconds
        case .date: call?.receivedAt.seconds ?? context.now.seconds
        case .badge: Int64(context.push.badge)
        case .ttl:
            if let notification {
                context.life(of: notification)
            } else {
                call == nil ? context.missedCallsTTL : context.inviteTTL
            }
        case .token, .param, .type, .callRef, .callID, .caller, .displayName, .calls, .pushID, .nonce, .title,
            .message, .image, .destinationType, .destinationCode, .custom:
            nil
        }
    }

    /// The list of missed calls as a JSON array; an empty array for any other push.
    var calls: [UInt8] {
        switch context.push.message {
        case .incomingCall, .silent, .notification: CallList.json([], atMost: Self.listLimit)
        case .missedCalls(let calls): CallList.json(calls, atMost: Self.listLimit)
        }
    }

    /// The JSON object that the application server sent for the app; an empty object if the application server sent
    /// none.
    var custom: [UInt8] { notification?.custom?.json ?? Array("{}".utf8) }

    private var notification: PushNotification? {
        guard case .notification(let notification) = context.push.message else { return nil }
        return notification
    }

    private var call: IncomingCall? {
        guard case .incomingCall(let call) = context.push.message else { return nil }
        return call
    }

    /// The caller of the pushed call; for a list of missed calls, the caller of the newest call.
    private var caller: ByteString {
        switch context.push.message {
        case .incomingCall(let call): call.isNameless ? ByteString("anonymous") : call.callerURI
        case .missedCalls(let calls): calls.last?.remoteURI ?? .empty
        case .silent, .notification: .empty
        }
    }
}

extension ByteString {
    /// The first `limit` bytes of the text, without an incomplete character at the end.
    fileprivate func cut(to limit: Int) -> ByteString {
        guard count > limit else { return self }
        var end = limit
        while end > limit - 4, end > 0, self[end] & 0xc0 == 0x80 { end -= 1 }
        return self[0..<end]
    }
}
