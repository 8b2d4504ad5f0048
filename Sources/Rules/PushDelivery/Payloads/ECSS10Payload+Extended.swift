import Bytes
import JSON
import Timekeeping

/// The payload format `ecss10.extended`: ECSS-10's payloads with more members. Each push has the time of sending. A push
/// about a call also has the caller, the Call-ID, and how long the call waits after the time of sending.
extension ECSS10Payload {
    private static let numberLimit = 512
    private static let nameLimit = 256

    static func extendedFields(_ context: PayloadContext, room: Int) -> [PayloadField] {
        guard case .incomingCall(let call) = context.push.message else {
            let tie = context.callTie
            let size = tie.size
            let fields = fields(context, room: room - size)
            // If the application server's object is large, the payload may have no room for the time of sending.
            return context.mustHaveTie || fields.size + size <= room ? fields + tie : fields
        }
        let number = call.isNameless ? ByteString("anonymous") : call.callerURI
        // The members of the payload are collected in one array, for speed, because most pushes for calls have the
        // format `ecss10.extended`.
        var fields: [PayloadField] = []
        fields.reserveCapacity(8)
        fields.append(PayloadField("type", word: "invite"))
        fields.append(PayloadField("date", call.receivedAt.seconds))
        fields.append(PayloadField("number", number, atMost: numberLimit))
        fields.append(name(of: call))
        context.appendCallTie(to: &fields)
        fields.append(PayloadField("ttl", context.inviteTTL))
        return fields
    }

    static func extendedApple(
        _ context: PayloadContext, _ type: ApplePushType, badge: BadgeType, room: Int
    ) -> [UInt8] {
        var members = context.callTie
        switch context.push.message {
        // Apple's test of a push token has an empty object `acme`.
        case .silent: return apple(context, type, badge: badge, room: room)
        case .incomingCall(let call):
            members = [name(of: call)] + members + [PayloadField("ttl", context.inviteTTL)]
        case .missedCalls, .notification: break
        }
        var more = Array(",".utf8)
        members.append(membersTo: &more)
        var body = apple(
            context, type, badge: badge, room: room - more.count, numberLimit: numberLimit, nameLimit: nameLimit)
        guard context.mustHaveTie || body.count + more.count <= room else { return body }
        insert(more, to: &body, context)
        return body
    }

    /// Inserts members at the end of the object `acme`. In a list of missed calls, another member follows `acme`.
    private static func insert(_ more: [UInt8], to body: inout [UInt8], _ context: PayloadContext) {
        guard case .missedCalls = context.push.message else {
            return body.insert(contentsOf: more, at: body.count - 2)
        }
        let end = endOfList(context)
        body.insert(contentsOf: more, at: body.count - end.count)
    }

    private static func name(of call: IncomingCall) -> PayloadField {
        PayloadField("display_name", call.isNameless ? .empty : call.displayName, atMost: nameLimit)
    }
}

extension PayloadContext {
    /// The maximum length of a Call-ID in bytes. A longer Call-ID is omitted, because an app could not find the INVITE
    /// by a part of a Call-ID.
    private static let callIDLimit = 512

    /// The Call-ID, the time of sending, and the nonce for the REGISTER. By the Call-ID, the app finds the INVITE of
    /// the push. By the time, the app recognises a late push. A push that is not about a call has only the time. Only
    /// the daemon's own payload formats have these members.
    var callTie: [PayloadField] {
        var fields: [PayloadField] = []
        appendCallTie(to: &fields)
        return fields
    }

    func appendCallTie(to fields: inout [PayloadField]) {
        if let callID { fields.append(PayloadField("call_id", callID, atMost: .max)) }
        fields.append(PayloadField("sent", now.seconds))
        if let nonce = push.nonce { fields.append(PayloadField("nonce", nonce)) }
    }

    /// The Call-ID of the push's call; `nil` if the push is about no call, or if the payload has no room for the
    /// Call-ID.
    private var callID: ByteString? {
        guard !isShort, let callID = wholeCallID, callID.count <= Self.callIDLimit else { return nil }
        return callID
    }

    /// The Call-ID of the push's call, of any length; `nil` if the push is about no call.
    var wholeCallID: ByteString? {
        switch push.message {
        case .incomingCall(let call): call.callID
        case .notification(let notification): notification.endedCall?.call.callID
        case .missedCalls, .silent: nil
        }
    }

    /// Whether the payload must have the members of ``callTie``, because the push is about a call. In other pushes, the
    /// time of sending is omitted if the payload would be too long.
    var mustHaveTie: Bool { wholeCallID != nil }
}
