import Bytes
import Timekeeping

/// The payload format of an app: the fields of its pushes.
package enum PayloadProfile: String, Hashable, Sendable, CaseIterable {
    /// The payloads of ECSS-10 (R12, R13, R24, R25).
    case ecss10
    /// The payloads of ECSS-10 with more members: each push also has the time of sending, and a push for a call the
    /// caller and the Call-ID of the INVITE.
    case ecss10Extended = "ecss10.extended"
    /// The payloads of the 10darts platform: the push's code, a text to show, and a place in the app to open.
    case tenDarts = "10d"
    /// The payloads of Flexisip, for Linphone apps.
    case linphone

    /// Whether the payload format has end pushes that Apple devices show as text.
    var tellsEnds: Bool { self == .linphone }
}

/// The value of `apns-push-type`, by which Apple and iOS decide how to treat a push. The payload of a push to an Apple
/// device must fit the push type.
enum ApplePushType: String {
    case voip, alert, background
}

/// The data from which the payload of a push is built.
package struct PayloadContext {
    let push: PushRequest
    /// The code by which the app's reports about pushes name the device.
    var deviceCode: ByteString?
    let settings: PayloadSettings
    /// The time of the present try of the push.
    let now: UnixTime
    /// Whether the payload has no Call-ID and only short texts about the caller, because the usual payload exceeds the
    /// provider's limit.
    var isShort = false

    var code: PushCode { push.code }

    /// How long a push for a call stays valid (A12). The value is the rest of the ring time in whole seconds, minus the
    /// setting `push.invite-ttl-margin`.
    var inviteTTL: Int64 {
        let left = (push.deadline - now).components
        let seconds = left.seconds + (left.attoseconds > 0 ? 1 : 0)
        return max(0, seconds - settings.inviteMargin.components.seconds)
    }

    var missedCallsTTL: Int64 { settings.missedCallsTTL.components.seconds }
}

extension PayloadProfile {
    /// The fields of a push, for providers that transport keys and values.
    ///
    /// - Parameters:
    ///   - context: the data from which the payload is built.
    ///   - room: the maximum size in bytes of all keys and values, for which a list of missed calls loses its oldest
    ///     entries (A25).
    /// - Returns: the fields, in the order in which they are written.
    func fields(_ context: PayloadContext, room: Int) -> [PayloadField] {
        switch self {
        case .ecss10: ECSS10Payload.fields(context, room: room)
        case .ecss10Extended: ECSS10Payload.extendedFields(context, room: room)
        case .tenDarts: TenDartsPayload.fields(context, room: room)
        case .linphone: LinphonePayload.fields(context, room: room)
        }
    }

    /// The whole payload of a push to an Apple device, as JSON.
    ///
    /// - Parameters:
    ///   - context: the data from which the payload is built.
    ///   - type: the value of `apns-push-type` for the push.
    ///   - badge: the form of the badge (string or number), for payload formats that do not define the form.
    ///   - room: the maximum size of the payload in bytes.
    /// - Returns: the JSON text of the payload.
    func apple(_ context: PayloadContext, _ type: ApplePushType, badge: BadgeType, room: Int) -> [UInt8] {
        switch self {
        case .ecss10: ECSS10Payload.apple(context, type, badge: badge, room: room)
        case .ecss10Extended: ECSS10Payload.extendedApple(context, type, badge: badge, room: room)
        case .tenDarts: TenDartsPayload.apple(context, type, room: room)
        case .linphone: LinphonePayload.apple(context, type, room: room)
        }
    }
}
