import Bytes
import JSON

/// Builds the pushes of one RuStore project. The object `data` contains the fields of the app's payload format, with all
/// values as strings.
final class RuStoreRequest: Sendable {
    /// The maximum size in bytes of all keys and values in `data` together. RuStore documents no limit, so the limit is
    /// FCM's.
    static let dataLimit = 4096

    private let url: String
    private let profile: PayloadProfile

    init(_ settings: RuStoreSettings) {
        url = "\(settings.baseURL)/v1/projects/\(settings.projectID ?? "")/messages:send"
        profile = settings.payload
    }

    func make(_ context: PayloadContext) -> PushRendering {
        // RuStore has no request that checks a push token without sending a push.
        if case .silent = context.push.message { return .impossible(.noSuitableToken) }
        var body: [UInt8] = []
        body.reserveCapacity(context.push.token.prid.count + 480)
        body.append("{\"message\":{\"token\":")
        body.append(jsonString: context.push.token.prid)
        // RuStore has neither priorities nor collapse keys.
        body.append(",\"android\":{\"ttl\":\"")
        body.append(decimal: context.life)
        body.append("s\"},\"data\":{")
        let size = profile.fields(context, room: Self.dataLimit).append(membersTo: &body, asStrings: true)
        guard size <= Self.dataLimit else { return .impossible(.payloadRefused("\(size) bytes of data")) }
        body.append("}}}")
        return .request(ProviderRequest(url: url, headers: ProviderRequest.Header.onlyJSON, body: body))
    }
}

extension PayloadContext {
    /// How long RuStore keeps the push for a device that is offline, in seconds.
    fileprivate var life: Int64 {
        switch push.message {
        case .incomingCall: inviteTTL
        case .notification(let notification): life(of: notification)
        case .missedCalls, .silent: missedCallsTTL
        }
    }
}
