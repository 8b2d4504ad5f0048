import Bytes
import JSON

/// A push as FCM's HTTP v1 interface wants it (A27): the data of any profile, with all values as strings.
enum FCMRequest {
    /// How many bytes the keys and values of `data` may have together.
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
        // The priority is high for all that rings or shows something. Google counts high ones that show nothing.
        body.append(",\"android\":{\"priority\":\"")
        body.append(context.isSilentNotification ? "NORMAL\"" : "HIGH\"")
        switch context.push.message {
        case .incomingCall:
            body.append(",\"ttl\":\"")
            body.append(decimal: context.inviteTTL)
            body.append("s\"")
        case .notification(let notification):
            // It gets no collapse key, as Google keeps only four of them for a device but a hundred pushes without.
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
