import Bytes
import Timekeeping

/// How an app wants its pushes worded.
package enum PayloadProfile: String, Hashable, Sendable, CaseIterable {
    /// The messages of ECSS-10 (R12, R13, R24, R25).
    case ecss10
    /// The messages of the 10darts platform: a code, a text to show, and a destination in the app.
    case tenDarts = "10d"
    /// The messages that Flexisip sends to Linphone.
    case linphone

    /// Whether it has words of its own for the end of a call.
    var tellsEnds: Bool { self == .linphone }
}

/// How Apple treats a push. The payload must agree with it.
enum ApplePushType: String {
    case voip, alert, background
}

/// What a payload is made of.
package struct PayloadContext {
    let push: PushRequest
    /// The code by which the app names the device in its reports.
    var deviceCode: ByteString?
    let settings: PayloadSettings
    /// The time of the try.
    let now: UnixTime

    var code: PushCode { push.code }

    /// `time_to_live` of an incoming-call push (A12): what is left of the ring timeout in whole seconds, less the
    /// margin.
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
    ///   - room: how many bytes all keys and values may have. A list of missed calls loses its oldest entries to fit (A25).
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
    ///   - badge: how to write the badge, in profiles where that is not fixed.
    ///   - room: how many bytes the payload may have.
    /// - Returns: JSON.
    func apple(_ context: PayloadContext, _ type: ApplePushType, badge: BadgeType, room: Int) -> [UInt8] {
        switch self {
        case .ecss10: ECSS10Payload.apple(context, type, badge: badge, room: room)
        case .tenDarts: TenDartsPayload.apple(context, type, room: room)
        case .linphone: LinphonePayload.apple(context, type, room: room)
        }
    }
}
