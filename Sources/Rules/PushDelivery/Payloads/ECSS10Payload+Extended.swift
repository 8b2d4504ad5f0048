import Bytes
import JSON
import Timekeeping

/// The payload format `ecss10.extended`: ECSS-10's payloads, with more members in pushes about a call. The further
/// members of `ecss10.extended` are the caller, the Call-ID, the time of sending, and how long the call waits after
/// that time.
extension ECSS10Payload {
    private static let numberLimit = 512
    private static let nameLimit = 256

    static func extendedFields(_ context: PayloadContext, room: Int) -> [PayloadField] {
        guard case .incomingCall(let call) = context.push.message else {
            return fields(context, room: room) + context.callTie
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
        guard !members.isEmpty else { return apple(context, type, badge: badge, room: room) }
        if case .incomingCall(let call) = context.push.message {
            members = [name(of: call)] + members + [PayloadField("ttl", context.inviteTTL)]
        }
        var body = apple(
            context, type, badge: badge, room: room, numberLimit: numberLimit, nameLimit: nameLimit)
        // The member `acme` is the last of the payload, so the new members are put before the two braces at its end.
        body.removeLast(2)
        body.append(",")
        members.append(membersTo: &body)
        body.append("}}")
        return body
    }

    private static func name(of call: IncomingCall) -> PayloadField {
        PayloadField("display_name", call.isNameless ? .empty : call.displayName, atMost: nameLimit)
    }
}

extension PayloadContext {
    /// The maximum length of a Call-ID in bytes. A longer Call-ID is omitted, because an app could not find the INVITE
    /// by a part of a Call-ID.
    private static let callIDLimit = 512

    /// The Call-ID, by which the app finds the INVITE of a push; the time of the push's present try, by which the app
    /// recognises a late push; and the nonce for the REGISTER. If the push is not about a call, the list of members is
    /// empty. Only payload formats of the daemon itself have members with the Call-ID, the time of sending and the
    /// nonce.
    var callTie: [PayloadField] {
        var fields: [PayloadField] = []
        appendCallTie(to: &fields)
        return fields
    }

    func appendCallTie(to fields: inout [PayloadField]) {
        let callID: ByteString
        switch push.message {
        case .incomingCall(let call): callID = call.callID
        case .notification(let notification):
            guard let end = notification.endedCall else { return }
            callID = end.call.callID
        case .missedCalls, .silent: return
        }
        if callID.count <= Self.callIDLimit { fields.append(PayloadField("call_id", callID, atMost: .max)) }
        fields.append(PayloadField("sent", now.seconds))
        if let nonce = push.nonce { fields.append(PayloadField("nonce", nonce)) }
    }
}
