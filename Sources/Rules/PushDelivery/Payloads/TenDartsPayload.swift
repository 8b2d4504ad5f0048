import Bytes
import JSON
import Timekeeping

/// Builds payloads in the format of the 10darts platform: for Android, for iOS, and for silent pushes to iOS.
///
/// The member `id` is the code of the push; the app sends this code when it reports that the push was received, opened
/// or read. The members `dst` and `dsc` name the place in the app to open. The member `ctm` has the data of a call, and
/// the code by which the app's reports name the device.
enum TenDartsPayload {
    /// The maximum size in bytes of a text that the phone shows.
    private static func textLimit(_ context: PayloadContext) -> Int { context.isShort ? 128 : 512 }

    static func fields(_ context: PayloadContext, room: Int) -> [PayloadField] {
        if case .notification(let notification) = context.push.message {
            return fields(notification, context, room: room)
        }
        let words = Words(context)
        let head = [
            PayloadField("id", context.code.description),
            PayloadField("message", words.text, atMost: textLimit(context)),
            PayloadField("title", words.title, atMost: textLimit(context)),
            PayloadField("badge", Int64(context.push.badge)),
        ]
        let tail = destination(context) + flags(confirms: true, isSilent: false)
        let custom = custom(context, room: room - head.size - tail.size - 3)
        return head + tail + [PayloadField("ctm", json: custom)]
    }

    static func apple(_ context: PayloadContext, _ type: ApplePushType, room: Int) -> [UInt8] {
        if case .notification(let notification) = context.push.message {
            return apple(notification, context, room: room)
        }
        var body: [UInt8] = []
        var members = [PayloadField("id", context.code.description)]
        if type == .background {
            body.append("{\"aps\":{\"content-available\":1},")
            members += destination(context) + flags(confirms: true, isSilent: true)
            if context.mustHaveTie { members.append(PayloadField("ctm", json: tie(context, device: nil))) }
            members.append(membersTo: &body)
            body.append("}")
            return body
        }
        let words = Words(context)
        body.append("{\"aps\":{")
        body.append(alert: words.title, words.text, TextLimits(title: textLimit(context), text: textLimit(context)))
        body.append(",\"badge\":")
        body.append(decimal: context.push.badge)
        body.append("},")
        members.append(PayloadField("title", words.title, atMost: textLimit(context)))
        members += destination(context) + flags(confirms: true, isSilent: false)
        members.append(membersTo: &body)
        body.append(",\"ctm\":")
        body.append(contentsOf: custom(context, room: room - body.count - 1))
        body.append("}")
        return body
    }

    // MARK: Parts

    /// The title and the text that the phone shows.
    private struct Words {
        let title: ByteString
        let text: ByteString

        init(_ context: PayloadContext) {
            let texts = context.settings.texts
            switch context.push.message {
            case .incomingCall(let call):
                title = ByteString(texts.incomingCall)
                text = call.shownCaller(anonymous: texts.anonymous)
            case .missedCalls(let calls):
                title = ByteString(texts.missedCalls)
                text = CallList.callers(calls, atMost: textLimit(context))
            case .silent, .notification:
                title = .empty
                text = .empty
            }
        }
    }

    private static func destination(_ context: PayloadContext) -> [PayloadField] {
        switch context.push.message {
        case .incomingCall(let call):
            [PayloadField("dst", "call"), PayloadField("dsc", call.callRef.description)]
        case .missedCalls: [PayloadField("dst", "missed_calls"), PayloadField("dsc", "")]
        case .silent, .notification: []
        }
    }

    /// The members that say whether the app must report the push's arrival (`cfm`) and whether the push is silent
    /// (`sil`).
    static func flags(confirms: Bool, isSilent: Bool) -> [PayloadField] {
        [PayloadField("cfm", confirms ? 1 : 0), PayloadField("sil", isSilent ? 1 : 0), PayloadField("org", "10d")]
    }

    private static func custom(_ context: PayloadContext, room: Int) -> [UInt8] {
        let device = member(context.deviceCode)
        var body: [UInt8] = []
        switch context.push.message {
        case .incomingCall(let call):
            body.append("{\"type\":\"invite\",\"date\":")
            body.append(decimal: call.receivedAt.seconds)
            body.append(",\"number\":")
            body.append(
                jsonString: call.isNameless ? ByteString("anonymous") : call.callerURI, atMost: textLimit(context))
            body.append(",\"display_name\":")
            body.append(jsonString: call.isNameless ? .empty : call.displayName, atMost: textLimit(context))
            body.append(",")
            context.callTie.append(membersTo: &body)
            body.append(contentsOf: device)
            body.append("}")
        case .missedCalls(let calls):
            body.append("{\"type\":\"missed_calls\",\"date\":")
            body.append(decimal: context.now.seconds)
            body.append(",")
            context.callTie.append(membersTo: &body)
            body.append(",\"calls\":")
            body.append(contentsOf: CallList.json(calls, atMost: room - body.count - device.count - 1))
            body.append(contentsOf: device)
            body.append("}")
        case .silent, .notification: body.append("{}")
        }
        return body
    }

    /// The object `ctm` of a push about a call that contains only the Call-ID, the time of sending and the device's
    /// code.
    static func tie(_ context: PayloadContext, device: ByteString?) -> [UInt8] {
        var body = Array("{".utf8)
        context.callTie.append(membersTo: &body)
        body.append(contentsOf: member(device))
        body.append("}")
        return body
    }

    /// The device's code as a JSON member that follows another member.
    private static func member(_ deviceCode: ByteString?) -> [UInt8] {
        guard let code = deviceCode else { return [] }
        var member: [UInt8] = []
        member.append(",\"device\":")
        member.append(jsonString: code)
        return member
    }
}
