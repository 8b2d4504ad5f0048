internal import JSON
internal import SIPGrammar
internal import Timekeeping

/// A push exactly as ECSS-10 sends it (R12, R24), for gateways that still take FCM's old messages.
enum FCMLegacyRequest {
    static func make(_ push: PushRequest, _ settings: PushSettings, now: UnixTime) -> PushRendering {
        var body: [UInt8] = []
        body.append("{\"to\":")
        body.append(jsonString: push.token.prid)
        body.append(",\"priority\":10,\"data\":{\"type\":")
        switch push.message {
        case .incomingCall(let call):
            body.append("\"invite\",\"date\":")
            body.append(decimal: call.receivedAt.seconds)
            body.append("},\"time_to_live\":")
            body.append(decimal: settings.inviteTTL(push, now: now))
            body.append("}")
        case .missedCalls(let calls):
            body.append("\"missed_calls\",\"date\":")
            body.append(decimal: now.seconds)
            body.append(",\"calls\":")
            body.append(contentsOf: CallList.json(calls, atMost: FCMRequest.callsLimit(now)))
            body.append("}}")
        }
        return .request(ProviderRequest(path: "/fcm/send", headers: [.json], body: body))
    }
}
