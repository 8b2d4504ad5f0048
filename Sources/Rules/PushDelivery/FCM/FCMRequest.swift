import Bytes
import JSON

/// Builds an app's pushes for FCM's HTTP v1 interface (A27). The object `data` has the fields of the app's payload
/// format, with all values as strings.
final class FCMRequest: Sendable {
    /// The maximum size in bytes of all keys and values in `data` together.
    static let dataLimit = 4096

    /// The URL to which pushes are posted; `nil` while the Firebase project is unknown.
    private let url: String?
    private let profile: PayloadProfile

    init(_ settings: FCMSettings) {
        url = settings.projectID.map { "\(settings.baseURL)/v1/projects/\($0)/messages:send" }
        profile = settings.profile
    }

    /// An empty body with enough memory for a usual push.
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
        // A push that rings or shows a text has high priority. Google limits high-priority pushes that show nothing.
        body.append(",\"android\":{\"priority\":\"")
        body.append(context.isSilentNotification ? "NORMAL\"" : "HIGH\"")
        switch context.push.message {
        case .incomingCall:
            body.append(",\"ttl\":\"")
            body.append(decimal: context.inviteTTL)
            body.append("s\"")
        case .notification(let notification):
            // A notification has no collapse key. For a device, Google stores up to a hundred pushes without a key, but
            // only four pushes with different keys.
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
    /// The usual header fields as one shared array, which makes comparisons of requests fast.
    static let onlyJSON = [json]
}
