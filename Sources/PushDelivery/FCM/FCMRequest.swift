internal import JSON
internal import SIPGrammar
internal import Timekeeping

/// A push as FCM's HTTP v1 interface wants it (A27): the model of ECSS-10 with all data as strings.
enum FCMRequest {
    /// Keys and values of `data` together.
    static let dataLimit = 4096

    static func make(_ push: PushRequest, _ settings: PushSettings, now: UnixTime) -> PushRendering {
        guard let project = settings.fcm.projectID else {
            return .impossible(
                .payloadRefused("no project: neither the service account nor push.fcm.project-id names one"))
        }
        var body: [UInt8] = []
        body.append("{\"message\":{\"token\":")
        body.append(jsonString: push.token.prid)
        body.append(",\"android\":{\"priority\":\"HIGH\"")
        switch push.message {
        case .incomingCall(let call):
            body.append(",\"ttl\":\"")
            body.append(decimal: settings.inviteTTL(push, now: now))
            body.append("s\"},\"data\":{\"type\":\"invite\",\"date\":\"")
            body.append(decimal: call.receivedAt.seconds)
            body.append("\"}}}")
        case .missedCalls(let calls):
            body.append("},\"data\":{\"type\":\"missed_calls\",\"date\":\"")
            body.append(decimal: now.seconds)
            body.append("\",\"calls\":")
            // The array is the text of a string, so it is escaped once more; the limit counts it as it arrives.
            body.append(jsonString: CallList.json(calls, atMost: callsLimit(now)).span)
            body.append("}}}")
        }
        return .request(
            ProviderRequest(path: "/v1/projects/\(project)/messages:send", headers: [.json], body: body))
    }

    /// What is left for `calls` beside the other keys and values.
    static func callsLimit(_ now: UnixTime) -> Int {
        dataLimit - "typemissed_callsdatecalls".utf8.count - String(now.seconds).utf8.count
    }
}

extension ProviderRequest.Header {
    static let json = ProviderRequest.Header("content-type", "application/json")
}
