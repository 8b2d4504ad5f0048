import Bytes
import JSON

/// A push as FCM's HTTP v1 interface wants it (A27): data of any profile, all values strings.
enum FCMRequest {
    /// Keys and values of `data` together.
    static let dataLimit = 4096

    static func make(_ context: PayloadContext, _ settings: FCMSettings) -> PushRendering {
        guard let project = settings.projectID else {
            return .impossible(
                .payloadRefused("no project: neither the service account nor push.fcm.project-id names one"))
        }
        let url = "\(settings.baseURL)/v1/projects/\(project)/messages:send"
        if case .silent = context.push.message {
            var body: [UInt8] = []
            body.append("{\"validate_only\":true,\"message\":{\"token\":")
            body.append(jsonString: context.push.token.prid)
            body.append("}}")
            return .request(ProviderRequest(url: url, headers: [.json], body: body))
        }
        let fields = settings.payload.fields(context, room: dataLimit)
        let size = fields.size
        guard size <= dataLimit else { return .impossible(.payloadRefused("\(size) bytes of data")) }
        var body: [UInt8] = []
        body.reserveCapacity(size + 512)
        body.append("{\"message\":{\"token\":")
        body.append(jsonString: context.push.token.prid)
        // High for all that lets the phone ring or show something; Google counts those that do not.
        body.append(",\"android\":{\"priority\":\"")
        body.append(context.isSilentNotification ? "NORMAL\"" : "HIGH\"")
        switch context.push.message {
        case .incomingCall:
            body.append(",\"ttl\":\"")
            body.append(decimal: context.inviteTTL)
            body.append("s\"")
        case .notification(let notification):
            // No collapse key: Google keeps four of them for a device, and a hundred pushes without.
            body.append(",\"ttl\":\"")
            body.append(decimal: context.life(of: notification))
            body.append("s\"")
        case .missedCalls, .silent: break
        }
        if let key = context.push.collapseKey {
            body.append(",\"collapse_key\":")
            body.append(jsonString: key)
        }
        body.append("},\"data\":{")
        fields.append(stringMembersTo: &body)
        body.append("}}}")
        return .request(ProviderRequest(url: url, headers: [.json], body: body))
    }
}

extension ProviderRequest.Header {
    static let json = ProviderRequest.Header("content-type", "application/json")
}
