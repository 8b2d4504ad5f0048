package import Addressing
package import Bytes
import Collections
package import Timekeeping

/// Identifies one push. A process never uses the number twice.
package struct PushID: SerialID, Absentable, Sendable {
    package let rawValue: UInt64
    package static var absent: PushID { PushID(rawValue: 0) }
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Written by hand, because the synthesized version uses a witness table in other modules.
    @inlinable
    package static func == (left: PushID, right: PushID) -> Bool { left.rawValue == right.rawValue }
}

/// The `call_ref` of ECSS-10, which identifies one call for one user. A reference is never reused, not even after a
/// restart.
package struct CallRef: Hashable, Absentable, Sendable, CustomStringConvertible {
    package let rawValue: UInt64
    /// No call has this number, because calls get random numbers other than 0.
    package static var absent: CallRef { CallRef(rawValue: 0) }
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// The reference as sixteen hexadecimal digits.
    package var description: String {
        let digits = String(rawValue, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Parses a ``description``; `nil` for any other text.
    package init?(_ text: some StringProtocol) {
        guard text.utf8.count == 16, let number = UInt64(text, radix: 16) else { return nil }
        rawValue = number
    }
}

/// The data of a call in an incoming-call push (R12 to R15).
package struct IncomingCall: Hashable, Sendable {
    package let callRef: CallRef
    /// The caller's URI without parameters. An anonymous caller's URI is not used (A14).
    package let callerURI: ByteString
    /// The caller's display name. Empty if missing (A16).
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
    /// Whether the caller has no name to show, because of privacy or a missing name.
    var isNameless: Bool { isAnonymous || callerURI.isEmpty }

    /// The name for people: the display name or, without one, the URI.
    func shownCaller(anonymous: String) -> ByteString {
        if isNameless { return ByteString(anonymous) }
        return displayName.isEmpty ? callerURI : displayName
    }
}

/// A call in the list of a missed-calls push (R26).
package struct MissedCall: Hashable, Sendable {
    /// The caller's user part. This is the whole URI if it has no user part, or `anonymous` (A14, A15).
    package let remoteURI: ByteString
    package let date: UnixTime
    package let callRef: CallRef

    package init(remoteURI: ByteString, date: UnixTime, callRef: CallRef) {
        self.callRef = callRef
        self.remoteURI = remoteURI
        self.date = date
    }
}

/// The message of a push.
package enum PushMessage: Sendable {
    case incomingCall(IncomingCall)
    /// A list of missed calls, oldest first (R26).
    case missedCalls([MissedCall])
    /// A push that shows nothing, to test whether the provider accepts the token. Only Apple and Google support such
    /// pushes.
    case silent
    /// A notification that an application server ordered, or the end of a call.
    indirect case notification(PushNotification)
}

/// One message for one device.
package struct PushRequest: Sendable {
    package let id: PushID
    /// The code of the push. It is the same in all tries, so that APNs does not show the push twice, and the same for
    /// all devices of this push.
    package let code: PushCode
    /// The device, or ``DeviceID/nobody`` if no known device has this token.
    package let device: DeviceID
    package let token: PushToken
    package let message: PushMessage
    /// The number of the device's unread pushes, including this one (A18).
    package let badge: Int
    /// When the push becomes useless: at the end of the ring time, or at the end of the life of a missed-calls list.
    package let deadline: UnixTime

    package init(
        id: PushID, code: PushCode, device: DeviceID, token: PushToken, message: PushMessage,
        badge: Int, deadline: UnixTime
    ) {
        self.id = id
        self.code = code
        self.device = device
        self.token = token
        self.message = message
        self.badge = badge
        self.deadline = deadline
    }
}

extension PushRequest {
    package var isNotification: Bool {
        switch message {
        case .notification: true
        case .incomingCall, .missedCalls, .silent: false
        }
    }

    /// The key by which a repetition replaces an earlier push that the phone has not shown yet.
    ///
    /// A list of missed calls is named after its oldest call. That call stays the same until the list is accepted, even
    /// if the list grows. Another list has another name. A call has no key, because it is over before a push could be
    /// repeated.
    var collapseKey: String? {
        switch message {
        case .incomingCall, .silent: nil
        // Some providers get their own key: see ``APNsRequest`` and ``WebPushRequest``.
        case .notification: nil
        case .missedCalls(let calls): calls.first.map { "missed-\($0.callRef)" }
        }
    }
}
