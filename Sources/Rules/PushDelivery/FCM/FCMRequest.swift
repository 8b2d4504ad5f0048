import Bytes
import JSON

/// Writes the pushes of one app for FCM's HTTP v1 interface (A27). Its `data` has the fields of any payload format,
/// with all values as strings.
final class FCMRequest: Sendable {
    /// The maximum size in bytes of the keys and values of `data` together.
    static let dataLimit = 4096

    /// The URL for requests; `nil` while the project is unknown.
    private let url: String?
    private let profile: PayloadProfile

    init(_ settings: FCMSettings) {
        url = settings.projectID.map { "\(settings.baseURL)/v1/projects/\($0)/messages:send" }
        profile = settings.profile
    }

    /// An empty body with the capacity for a push of usual length.
    static func emptyBody(for context: PayloadContext) -> [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(context.push.token.prid.count + 480)
        return body
    }

    func make(_ context: PayloadContext) -> PushRendering {
        guard let url else {
            return .impossible(
                .payloadRefused("no project: set push.fcm.project-id, or use a service account that names one"))
        }
        var body = Self.emptyBody(for: context)
        if case .silent = context.push.message {
            body.append("{\"validate_only\":true,\"message\":{\"token\":")
            body.append(jsonString: context.push.token.prid)
            body.append("}}")
            return .request(ProviderRequest(url: url, headers: ProviderRequest.Header.onlyJSON, body: body))
        }
        body.append("{\"message\":{\"token\":")
        body.append(jsonString: context.push.token.prid)
        // The priority is high for each push that rings or shows something. Google limits high-priority pushes that
        // show nothing.
        body.append(",\"android\":{\"priority\":\"")
        body.append(context.isSilentNotification ? "NORMAL\"" : "HIGH\"")
        switch context.push.message {
        case .incomingCall:
            body.append(",\"ttl\":\"")
            body.append(decimal: context.inviteTTL)
            body.append("s\"")
        case .notification(let notification):
            // A notification has no collapse key. Google stores pushes for only four keys of a device, but a hundred
            // pushes without a key.
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
        let size = profile.fields(context, room: Self.dataLimit).append(membersTo: &body, asStrings: true)
        guard size <= Self.dataLimit else { return .impossible(.payloadRefused("\(size) bytes of data")) }
        body.append("}}}")
        return .request(ProviderRequest(url: url, headers: ProviderRequest.Header.onlyJSON, body: body))
    }
}

extension ProviderRequest.Header {
    static let json = ProviderRequest.Header("content-type", "application/json")
    /// The header fields, in one array for all requests, so that requests are compared fast.
    static let onlyJSON = [json]
}
