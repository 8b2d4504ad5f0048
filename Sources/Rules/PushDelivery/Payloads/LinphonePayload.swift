import Bytes
import JSON
import Timekeeping

/// Builds payloads in the format of Flexisip, because Linphone's apps understand this format.
enum LinphonePayload {
    /// The key of the text "incoming call" in Linphone's apps.
    private static let callKey = "IC_MSG"
    static let uriLimit = 512
    static let nameLimit = 256
    static let callIDLimit = 256

    static func fields(_ context: PayloadContext, room: Int) -> [PayloadField] {
        let head = [
            PayloadField("uuid", context.code.description), PayloadField("send-time", sendTime(context.now)),
            PayloadField("custom-payload", "{}"),
        ]
        func fields(of call: IncomingCall, _ key: String) -> [PayloadField] {
            let shown = call.shownCaller(anonymous: context.settings.texts.anonymous)
            return head + caller(call) + [
                PayloadField("call-id", call.callID, atMost: callIDLimit),
                PayloadField("sip-from", shown, atMost: nameLimit),
                PayloadField("loc-key", key), PayloadField("loc-args", shown, atMost: nameLimit),
            ]
        }
        switch context.push.message {
        case .incomingCall(let call): return fields(of: call, callKey)
        case .missedCalls(let calls):
            let type = PayloadField("type", "missed_calls")
            let list = CallList.json(calls, atMost: room - (head + [type]).size - 5)
            return head + [type, PayloadField("calls", json: list)]
        case .silent: return head
        case .notification(let notification):
            if let end = notification.endedCall { return fields(of: end.call, key(end.outcome)) }
            return Self.fields(notification, context, room: room)
        }
    }

    /// The key of Flexisip's text about the end of a call, for each way in which a call can end.
    private static func key(_ outcome: EndedCallNotice.Outcome) -> String {
        switch outcome {
        case .missed: "Missing call"
        case .answeredElsewhere: "Accepted elsewhere"
        case .declinedElsewhere: "Declined elsewhere"
        }
    }

    static func apple(_ context: PayloadContext, _ type: ApplePushType, room: Int) -> [UInt8] {
        switch context.push.message {
        case .incomingCall(let call): appleCall(context, call, callKey, type, ttl: context.inviteTTL)
        case .missedCalls(let calls): appleList(context, calls, type, room: room)
        case .silent: Array("{\"aps\":{\"content-available\":1}}".utf8)
        case .notification(let notification):
            if let end = notification.endedCall {
                appleCall(context, end.call, key(end.outcome), type, ttl: context.life(of: notification))
            } else {
                apple(notification, context, room: room)
            }
        }
    }

    private static func appleCall(
        _ context: PayloadContext, _ call: IncomingCall, _ key: String, _ type: ApplePushType, ttl: Int64
    ) -> [UInt8] {
        let shown = call.shownCaller(anonymous: context.settings.texts.anonymous)
        var text: [UInt8] = []
        text.append("\"loc-key\":\"")
        text.append(contentsOf: key.utf8)
        text.append("\",\"loc-args\":[")
        text.append(jsonString: shown, atMost: nameLimit)
        text.append("]")
        let names = [
            PayloadField("call-id", call.callID, atMost: callIDLimit),
            PayloadField("uuid", context.code.description), PayloadField("send-time", sendTime(context.now)),
        ]
        var body: [UInt8] = []
        body.append("{\"aps\":{")
        switch type {
        case .voip, .background:
            body.append(type == .voip ? "\"sound\":\"\"," : "\"badge\":0,\"content-available\":1,")
            body.append(contentsOf: text)
            body.append(",")
            names.append(membersTo: &body)
        case .alert:
            body.append("\"alert\":{")
            body.append(contentsOf: text)
            body.append("},\"sound\":\"default\",\"mutable-content\":1,\"badge\":")
            body.append(decimal: context.push.badge)
        }
        body.append("},")
        if type == .alert {
            names.append(membersTo: &body)
            body.append(",")
        }
        caller(call).append(membersTo: &body)
        body.append(",\"pn_ttl\":")
        body.append(decimal: ttl)
        body.append(",\"customPayload\":{}}")
        return body
    }

    /// The list of missed calls for an Apple device. Flexisip has no text key for missed calls, and an app shows an
    /// unknown key unchanged, so the push contains the text itself.
    private static func appleList(
        _ context: PayloadContext, _ calls: [MissedCall], _ type: ApplePushType, room: Int
    ) -> [UInt8] {
        var body: [UInt8] = []
        if type == .background {
            body.append("{\"aps\":{\"badge\":0,\"content-available\":1},")
        } else {
            body.append("{\"aps\":{")
            body.append(
                alert: ByteString(context.settings.texts.missedCalls), calls.last?.remoteURI ?? .empty,
                TextLimits(title: nameLimit, text: nameLimit))
            body.append(",\"mutable-content\":1,\"badge\":")
            body.append(decimal: context.push.badge)
            body.append("},")
        }
        [
            PayloadField("type", "missed_calls"), PayloadField("uuid", context.code.description),
            PayloadField("send-time", sendTime(context.now)), PayloadField("pn_ttl", context.missedCallsTTL),
        ].append(membersTo: &body)
        body.append(",\"calls\":")
        let end = ",\"customPayload\":{}}"
        body.append(contentsOf: CallList.json(calls, atMost: room - body.count - end.utf8.count))
        body.append(contentsOf: end.utf8)
        return body
    }

    private static func caller(_ call: IncomingCall) -> [PayloadField] {
        let uri = call.isNameless ? ByteString("sip:anonymous@anonymous.invalid") : call.callerURI
        return [
            PayloadField("from-uri", uri, atMost: uriLimit),
            PayloadField("display-name", call.isNameless ? .empty : call.displayName, atMost: nameLimit),
        ]
    }

    /// Writes a time in UTC, in the form `YYYY-MM-DD HH:MM:SS`.
    static func sendTime(_ time: UnixTime) -> String { "\(time.civil.dayText) \(time.civil.timeText)" }
}
