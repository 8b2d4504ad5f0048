import Bytes
import JSON
import Timekeeping

/// The payload format `ecss10.extended`: the payloads of ECSS-10, with more members in pushes about a call. These
/// members are the caller, the Call-ID of the INVITE, the time of sending, and the time for which the call then still
/// waited.
extension ECSS10Payload {
    private static let numberLimit = 512
    private static let nameLimit = 256

    static func extendedFields(_ context: PayloadContext, room: Int) -> [PayloadField] {
        guard case .incomingCall(let call) = context.push.message else {
            return fields(context, room: room) + context.callTie
        }
        let number = call.isNameless ? ByteString("anonymous") : call.callerURI
        // The members are one array, because this is the usual push of a call.
        var fields: [PayloadField] = []
        fields.reserveCapacity(7)
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
        // `acme` must be the last member of the payload, because its end is replaced here.
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
    /// The maximum length of a Call-ID in bytes. A longer Call-ID is left out, because a part of a Call-ID would match
    /// no INVITE.
    private static let callIDLimit = 512

    /// The Call-ID and the time of this try, by which an app finds the INVITE for a push and recognises a late push.
    /// The list is empty for pushes that are not about a call. Only the daemon's own payload formats have these
    /// members.
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
    }
}
