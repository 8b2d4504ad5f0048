package import Addressing
package import Bytes
import Collections
package import Timekeeping

/// The number of one push; the daemon uses each number only once in each run.
package struct PushID: SerialID, Absentable, Sendable {
    package let rawValue: UInt64
    package static var absent: PushID { PushID(rawValue: 0) }
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Compares two push ids. The compiler's own comparison would be slow in other modules, because it uses a witness
    /// table.
    @inlinable
    package static func == (left: PushID, right: PushID) -> Bool { left.rawValue == right.rawValue }
}

/// The `call_ref` of ECSS-10, which identifies one call to one user. No `call_ref` is used twice, not even after a
/// restart.
package struct CallRef: Hashable, Absentable, Sendable, CustomStringConvertible {
    package let rawValue: UInt64
    /// The value for no call; a call has a random number other than 0.
    package static var absent: CallRef { CallRef(rawValue: 0) }
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// The call reference as sixteen hexadecimal digits.
    package var description: String {
        let digits = String(rawValue, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Parses a call reference in the form of ``description``; `nil` for any other text.
    package init?(_ text: some StringProtocol) {
        guard text.utf8.count == 16, let number = UInt64(text, radix: 16) else { return nil }
        rawValue = number
    }
}

/// The data about an incoming call in its push (R12 to R15).
package struct IncomingCall: Hashable, Sendable {
    package let callRef: CallRef
    /// The caller's URI without parameters. Pushes do not contain the URI of an anonymous caller (A14).
    package let callerURI: ByteString
    /// The caller's display name; empty if the caller has none (A16).
    package let displayName: ByteString
    /// Whether the caller asked for privacy (A15).
    package let isAnonymous: Bool
    package let receivedAt: UnixTime
    /// The Call-ID of the INVITE.
    package let callID: ByteString

    package init(
        callRef: CallRef, callerURI: ByteString, displayName: ByteString, isAnonymous: Bool, receivedAt: UnixTime,
        callID: ByteString
    ) {
        self.callRef = callRef
        self.callID = callID
        self.callerURI = callerURI
        self.displayName = displayName
        self.isAnonymous = isAnonymous
        self.receivedAt = receivedAt
    }
}

extension IncomingCall {
    /// Whether pushes show no caller, because the caller asked for privacy or has no URI.
    var isNameless: Bool { isAnonymous || callerURI.isEmpty }

    /// The caller as a phone shows it: the display name or else the URI.
    func shownCaller(anonymous: String) -> ByteString {
        if isNameless { return ByteString(anonymous) }
        return displayName.isEmpty ? callerURI : displayName
    }
}

/// One call in a push with a list of missed calls (R26).
package struct MissedCall: Hashable, Sendable {
    /// The caller: the user part of the URI, the whole URI if it has no user part, or `anonymous` (A14, A15).
    package let remoteURI: ByteString
    package let date: UnixTime
    package let callRef: CallRef

    package init(remoteURI: ByteString, date: UnixTime, callRef: CallRef) {
        self.callRef = callRef
        self.remoteURI = remoteURI
        self.date = date
    }
}

/// The message of a push to the phone: a call, a list of missed calls, a test, or a notification.
package enum PushMessage: Sendable {
    case incomingCall(IncomingCall)
    /// A list of missed calls, oldest first (R26).
    case missedCalls([MissedCall])
    /// A push that shows nothing and tests whether the provider accepts the token. Only Apple and Google support silent
    /// pushes.
    case silent
    /// A notification that an application server has ordered, or a push about a call's end.
    indirect case notification(PushNotification)
}

/// One push to one device, with all data for its HTTP request.
package struct PushRequest: Sendable {
    /// The push's id; ``PushID/absent`` until the push is sent.
    package var id: PushID
    /// The code by which provider and app identify the push. The code of a push is the same in all tries, so that iOS
    /// does not show the push twice, and at all devices.
    package let code: PushCode
    /// The device that gets the push; ``DeviceID/nobody`` if no known device has the token.
    package let device: DeviceID
    package let token: PushToken
    package let message: PushMessage
    /// The badge: the number of the device's unread pushes, including the new push (A18).
    package let badge: Int
    /// The time at which the push becomes useless: the end of a call's ring time, or the expiry of a list or
    /// notification.
    package let deadline: UnixTime
    /// The nonce with which the woken phone can register without a challenge; `nil` for a push without nonce.
    package let nonce: ByteString?

    package init(
        id: PushID = .absent, code: PushCode, device: DeviceID, token: PushToken, message: PushMessage,
        badge: Int, deadline: UnixTime, nonce: ByteString? = nil
    ) {
        self.id = id
        self.code = code
        self.device = device
        self.token = token
        self.message = message
        self.badge = badge
        self.deadline = deadline
        self.nonce = nonce
    }
}

extension PushRequest {
    /// The maximum length in bytes of a URI and a Call-ID in the smallest payload. A longer text is omitted and not
    /// cut, because a cut URI could name another user.
    private static let smallestText = 128

    /// The push with the smallest payload that still shows the kind of message: a call without display name, or only
    /// the newest missed call.
    var smallest: PushRequest {
        let message: PushMessage
        switch self.message {
        case .incomingCall(let call):
            let isLong = call.callerURI.count > Self.smallestText
            message = .incomingCall(
                IncomingCall(
                    callRef: call.callRef, callerURI: isLong ? .empty : call.callerURI, displayName: .empty,
                    isAnonymous: call.isAnonymous, receivedAt: call.receivedAt,
                    callID: call.callID.count > Self.smallestText ? .empty : call.callID))
        case .missedCalls(let calls): message = .missedCalls(Array(calls.suffix(1)))
        case .silent, .notification: message = self.message
        }
        return PushRequest(
            id: id, code: code, device: device, token: token, message: message, badge: badge, deadline: deadline,
            nonce: nonce)
    }

    package var isNotification: Bool {
        switch message {
        case .notification: true
        case .incomingCall, .missedCalls, .silent: false
        }
    }

    /// The collapse key, by which a push replaces an earlier, undelivered push.
    ///
    /// The collapse key of a list of missed calls names the oldest call, because a growing list keeps its oldest call.
    /// A push for a call has no collapse key, because no later push about the call would replace it in time.
    var collapseKey: String? {
        switch message {
        case .incomingCall, .silent: nil
        // APNs and web push have their own collapse keys for notifications: see ``APNsRequest`` and ``WebPushRequest``.
        case .notification: nil
        case .missedCalls(let calls): calls.first.map { "missed-\($0.callRef)" }
        }
    }
}
