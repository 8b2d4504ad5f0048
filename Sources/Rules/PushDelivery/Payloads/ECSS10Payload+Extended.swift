import Bytes
import JSON
import Timekeeping

/// The payload `ecss10.extended`: the messages of ECSS-10 with more members where they are about a call. These say who
/// calls, the Call-ID of the INVITE, when the push was sent, and how long the call still waited then.
extension ECSS10Payload {
    private static let numberLimit = 512
    private static let nameLimit = 256

    static func extendedFields(_ context: PayloadContext, room: Int) -> [PayloadField] {
        guard case .incomingCall(let call) = context.push.message else {
            return fields(context, room: room) + context.callTie
        }
        let number = call.isNameless ? ByteString("anonymous") : call.callerURI
        // One array, because this is the usual push of a call.
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
        // The object `acme` is the last member of the payload.
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
    /// A longer Call-ID is omitted, because a part of a Call-ID would match no INVITE.
    private static let callIDLimit = 512

    /// The members that tie a push about a call to its INVITE, and tell a late push from a fresh one: the Call-ID, and the
    /// time of this try. Empty in other pushes. Payloads whose form is ours have these members.
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
