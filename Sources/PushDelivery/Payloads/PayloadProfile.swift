import Bytes
import Timekeeping

/// How an app wants its pushes worded.
package enum PayloadProfile: String, Hashable, Sendable, CaseIterable {
    /// The messages of ECSS-10 (R12, R13, R24, R25).
    case ecss10
    /// The 10darts platform's: a code, a text to show, a destination in the app.
    case tenDarts = "10d"
    /// What Flexisip sends to Linphone.
    case linphone

    /// It has words of its own for the end of a call.
    var tellsEnds: Bool { self == .linphone }
}

/// How Apple treats a push; must agree with the payload.
enum ApplePushType: String {
    case voip, alert, background
}

/// What a payload is made of.
struct PayloadContext {
    let push: PushRequest
    /// By which the app names the device.
    var deviceCode: ByteString?
    let settings: PayloadSettings
    /// The time of the try.
    let now: UnixTime

    var code: PushCode { push.code }

    /// `time_to_live` of an incoming-call push (A12): what is left of the ring timeout in whole seconds, less the margin.
    var inviteTTL: Int64 {
        let left = (push.deadline - now).components
        let seconds = left.seconds + (left.attoseconds > 0 ? 1 : 0)
        return max(0, seconds - settings.inviteMargin.components.seconds)
    }

    var missedCallsTTL: Int64 { settings.missedCallsTTL.components.seconds }
}

extension PayloadProfile {
    /// The data of a push for services that carry keys and values.
    ///
    /// - Parameters:
    ///   - context: what to say.
    ///   - room: bytes for all keys and values together; lists of missed calls lose their oldest entries to fit (A25).
    /// - Returns: the fields in the order to write them.
    func fields(_ context: PayloadContext, room: Int) -> [PayloadField] {
        switch self {
        case .ecss10: ECSS10Payload.fields(context, room: room)
        case .tenDarts: TenDartsPayload.fields(context, room: room)
        case .linphone: LinphonePayload.fields(context, room: room)
        }
    }

    /// The whole payload for an Apple device.
    ///
    /// - Parameters:
    ///   - context: what to say.
    ///   - type: how Apple will treat it.
    ///   - badge: how to write the badge where it is the app's own matter.
    ///   - room: bytes of the payload.
    /// - Returns: JSON.
    func apple(_ context: PayloadContext, _ type: ApplePushType, badge: BadgeType, room: Int) -> [UInt8] {
        switch self {
        case .ecss10: ECSS10Payload.apple(context, type, badge: badge, room: room)
        case .tenDarts: TenDartsPayload.apple(context, type, room: room)
        case .linphone: LinphonePayload.apple(context, type, room: room)
        }
    }
}
