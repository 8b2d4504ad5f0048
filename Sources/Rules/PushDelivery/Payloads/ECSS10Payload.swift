import Bytes
import JSON
import Timekeeping

/// Builds payloads exactly as in ECSS-10, byte for byte: R12 and R24 for Firebase, R13 and R25 for Apple.
enum ECSS10Payload {
    /// The maximum lengths in bytes of a caller's number and name, without quotes. The limits on number and name keep
    /// the payload below the provider's limit.
    private static let numberLimit = 2048
    private static let nameLimit = 1024

    static func fields(_ context: PayloadContext, room: Int) -> [PayloadField] {
        switch context.push.message {
        case .incomingCall(let call):
            return [PayloadField("type", word: "invite"), PayloadField("date", call.receivedAt.seconds)]
        case .missedCalls(let calls):
            let head = [PayloadField("type", word: "missed_calls"), PayloadField("date", context.now.seconds)]
            return head + [PayloadField("calls", json: CallList.json(calls, atMost: room - head.size - 5))]
        case .silent: return [PayloadField("type", word: "silent")]
        case .notification(let notification): return Self.fields(notification, context, room: room)
        }
    }

    static func apple(
        _ context: PayloadContext, _ type: ApplePushType, badge: BadgeType, room: Int,
        numberLimit: Int = Self.numberLimit, nameLimit: Int = Self.nameLimit
    ) -> [UInt8] {
        if case .notification(let notification) = context.push.message {
            return apple(notification, context, badge: badge, room: room)
        }
        let badge = Badge(value: context.push.badge, type: badge)
        var body: [UInt8] = []
        body.append("{\"aps\":{")
        if type == .background {
            // Apple allows only `content-available` in the `aps` of a silent push.
            body.append("\"content-available\":1")
        } else {
            badge.append(to: &body)
        }
        body.append("},\"acme\":{")
        switch context.push.message {
        case .incomingCall(let call):
            badge.append(to: &body)
            append(call, numberLimit, nameLimit, to: &body)
        case .missedCalls(let calls):
            body.append("\"type\":\"missed_calls\",\"date\":")
            body.append(decimal: context.now.seconds)
            body.append(",\"calls\":")
            let end = endOfList(context)
            body.append(contentsOf: CallList.json(calls, atMost: room - body.count - end.count))
            body.append(contentsOf: end)
        case .silent, .notification: body.append("}}")
        }
        return body
    }

    /// The end of a list of missed calls for an Apple device, from the brace that closes `acme`.
    static func endOfList(_ context: PayloadContext) -> [UInt8] {
        var end: [UInt8] = []
        end.append("},\"time_to_live\":")
        end.append(decimal: context.missedCallsTTL)
        end.append("}")
        return end
    }

    private static func append(
        _ call: IncomingCall, _ numberLimit: Int, _ nameLimit: Int, to body: inout [UInt8]
    ) {
        body.append(",\"type\":\"invite\",\"date\":")
        body.append(decimal: call.receivedAt.seconds)
        body.append(",\"number\":")
        if call.isNameless {
            body.append("\"anonymous\"")
        } else {
            body.append(jsonString: call.callerURI, atMost: numberLimit)
        }
        // ECSS-10 misspells the key as `dispaly_name`. If the caller has no name or is anonymous, `dispaly_name` is an
        // empty list (A16).
        body.append(",\"dispaly_name\":")
        if call.isNameless || call.displayName.isEmpty {
            body.append("[]")
        } else {
            body.append(jsonString: call.displayName, atMost: nameLimit)
        }
        body.append("}}")
    }

    struct Badge {
        let value: Int
        let type: BadgeType

        func append(to body: inout [UInt8]) {
            body.append("\"badge\":")
            if type == .string { body.append("\"") }
            body.append(decimal: value)
            if type == .string { body.append("\"") }
        }
    }
}
