internal import JSON
internal import SIPGrammar
internal import Timekeeping

/// A push as APNs wants it, with the payloads of ECSS-10 (R13, R25).
enum APNsRequest {
    /// Bytes of a payload, for VoIP pushes and for all others.
    private static let voipLimit = 5120
    private static let limit = 4096
    /// What may stand between the quotes; with the rest always below the limit.
    private static let numberLimit = 2048
    private static let nameLimit = 1024

    static func make(_ push: PushRequest, _ settings: PushSettings, id: APNsID, now: UnixTime) -> PushRendering {
        let token: APNsToken
        do throws(APNsToken.Problem) {
            token = try APNsToken(push.token, withoutService: settings.apns.tokenService)
        } catch {
            return .impossible(.noSuitableToken)
        }
        guard let topic = topic(of: token, settings.apns) else {
            return .impossible(.payloadRefused("no topic: neither pn-param nor push.apns.topics names a bundle"))
        }
        switch push.message {
        case .incomingCall(let call):
            let expiration = String(push.deadline.seconds)
            let body = body(call, badge: Badge(push.badge, settings.apns.badgeType))
            if let voip = token.voip {
                return request(to: voip, topic + ".voip", "voip", expiration, id, body)
            }
            guard let remote = token.remote else { return .impossible(.noSuitableToken) }
            return request(to: remote, topic, "alert", expiration, id, body)
        case .missedCalls(let calls):
            // Apple ends apps whose VoIP push reports no call, so a PushKit token is no way to tell of missed ones.
            guard let remote = token.remote else { return .impossible(.noSuitableToken) }
            let body = body(calls, badge: Badge(push.badge, settings.apns.badgeType), settings, now: now)
            let expiration = String((now + settings.missedCallsTTL).seconds)
            // Collapses with its own repetition only: another list must not replace one that was not seen.
            let collapse = ProviderRequest.Header("apns-collapse-id", id.description)
            return request(to: remote, topic, "alert", expiration, id, body, collapse)
        }
    }

    /// The bundle that the device names, when it is one of ours, else our first (A28).
    private static func topic(of token: APNsToken, _ settings: APNsSettings) -> String? {
        guard let bundle = token.bundle?.string else { return settings.topics.first }
        return settings.topics.isEmpty || settings.topics.contains(bundle) ? bundle : settings.topics.first
    }

    private static func request(
        to token: ByteString, _ topic: String, _ type: String, _ expiration: String, _ id: APNsID, _ body: [UInt8],
        _ extra: ProviderRequest.Header? = nil
    ) -> PushRendering {
        var path: [UInt8] = []
        path.reserveCapacity(10 + token.count)
        path.append("/3/device/")
        path.append(percentEncoding: token)
        var headers = [
            ProviderRequest.Header("apns-topic", topic), ProviderRequest.Header("apns-push-type", type),
            ProviderRequest.Header("apns-priority", "10"), ProviderRequest.Header("apns-expiration", expiration),
            ProviderRequest.Header("apns-id", id.description),
        ]
        if let extra { headers.append(extra) }
        return .request(
            ProviderRequest(path: String(decoding: path, as: UTF8.self), headers: headers, body: body))
    }

    // MARK: Payloads

    private struct Badge {
        let value: Int
        let type: BadgeType

        init(_ value: Int, _ type: BadgeType) {
            self.value = value
            self.type = type
        }

        func append(to body: inout [UInt8]) {
            body.append("\"badge\":")
            if type == .string { body.append("\"") }
            body.append(decimal: value)
            if type == .string { body.append("\"") }
        }
    }

    private static func body(_ call: IncomingCall, badge: Badge) -> [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(192 + call.callerURI.count + call.displayName.count)
        body.append("{\"aps\":{")
        badge.append(to: &body)
        body.append("},\"acme\":{")
        badge.append(to: &body)
        body.append(",\"type\":\"invite\",\"date\":")
        body.append(decimal: call.receivedAt.seconds)
        let isAnonymous = call.isAnonymous || call.callerURI.isEmpty
        body.append(",\"number\":")
        if isAnonymous {
            body.append("\"anonymous\"")
        } else {
            body.append(jsonString: call.callerURI, atMost: numberLimit)
        }
        // Spelled so by ECSS-10; its empty name is an empty list (A16).
        body.append(",\"dispaly_name\":")
        if isAnonymous || call.displayName.isEmpty {
            body.append("[]")
        } else {
            body.append(jsonString: call.displayName, atMost: nameLimit)
        }
        body.append("}}")
        return body
    }

    private static func body(
        _ calls: [MissedCall], badge: Badge, _ settings: PushSettings, now: UnixTime
    ) -> [UInt8] {
        var body: [UInt8] = []
        body.append("{\"aps\":{")
        badge.append(to: &body)
        body.append("},\"acme\":{\"type\":\"missed_calls\",\"date\":")
        body.append(decimal: now.seconds)
        body.append(",\"calls\":")
        var end: [UInt8] = []
        end.append("},\"time_to_live\":")
        end.append(decimal: settings.missedCallsTTL.components.seconds)
        end.append("}")
        body.append(contentsOf: CallList.json(calls, atMost: limit - body.count - end.count))
        body.append(contentsOf: end)
        return body
    }
}

extension Array<UInt8> {
    /// Appends the bytes as one segment of a path: all but letters, digits, `-`, `_` and `~` is escaped.
    fileprivate mutating func append(percentEncoding bytes: ByteString) {
        for index in 0..<bytes.count {
            let byte = bytes[index]
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"):
                append(byte)
            default:
                append(UInt8(ascii: "%"))
                for digit in [byte >> 4, byte & 15] {
                    append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "A") + digit - 10)
                }
            }
        }
    }
}
