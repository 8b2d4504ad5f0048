import Bytes
import Timekeeping

/// The payload format of an app.
package enum PayloadProfile: String, Hashable, Sendable, CaseIterable {
    /// The payloads of ECSS-10 (R12, R13, R24, R25).
    case ecss10
    /// The payloads of ECSS-10. A push for a call also has the caller, the Call-ID of the INVITE, and the time of
    /// sending.
    case ecss10Extended = "ecss10.extended"
    /// The payloads of the 10darts platform: a code, a text to show, and a destination in the app.
    case tenDarts = "10d"
    /// The payloads of Flexisip, for Linphone apps.
    case linphone

    /// Whether the payload format has texts of its own about the end of a call.
    var tellsEnds: Bool { self == .linphone }
}

/// The type by which Apple decides how to treat a push. The payload must agree with it.
enum ApplePushType: String {
    case voip, alert, background
}

/// The data from which a payload is written.
package struct PayloadContext {
    let push: PushRequest
    /// The code that identifies the device in the app's reports.
    var deviceCode: ByteString?
    let settings: PayloadSettings
    /// The time of this try of the push.
    let now: UnixTime

    var code: PushCode { push.code }

    /// The lifetime of a push for a call (A12): the rest of the ring time in whole seconds, minus the margin.
    var inviteTTL: Int64 {
        let left = (push.deadline - now).components
        let seconds = left.seconds + (left.attoseconds > 0 ? 1 : 0)
        return max(0, seconds - settings.inviteMargin.components.seconds)
    }

    var missedCallsTTL: Int64 { settings.missedCallsTTL.components.seconds }
}

extension PayloadProfile {
    /// The fields of a push for services that transport keys and values.
    ///
    /// - Parameters:
    ///   - context: the data.
    ///   - room: the maximum size in bytes of all keys and values. A list of missed calls is shortened by dropping
    ///     its oldest entries (A25).
    /// - Returns: the fields in the order in which to write them.
    func fields(_ context: PayloadContext, room: Int) -> [PayloadField] {
        switch self {
        case .ecss10: ECSS10Payload.fields(context, room: room)
        case .ecss10Extended: ECSS10Payload.extendedFields(context, room: room)
        case .tenDarts: TenDartsPayload.fields(context, room: room)
        case .linphone: LinphonePayload.fields(context, room: room)
        }
    }

    /// The whole payload of a push to an Apple device.
    ///
    /// - Parameters:
    ///   - context: the data.
    ///   - type: how Apple will treat the push.
    ///   - badge: the form of the badge, in payload formats that do not fix it.
    ///   - room: the maximum size of the payload in bytes.
    /// - Returns: JSON.
    func apple(_ context: PayloadContext, _ type: ApplePushType, badge: BadgeType, room: Int) -> [UInt8] {
        switch self {
        case .ecss10: ECSS10Payload.apple(context, type, badge: badge, room: room)
        case .ecss10Extended: ECSS10Payload.extendedApple(context, type, badge: badge, room: room)
        case .tenDarts: TenDartsPayload.apple(context, type, room: room)
        case .linphone: LinphonePayload.apple(context, type, room: room)
        }
    }
}
