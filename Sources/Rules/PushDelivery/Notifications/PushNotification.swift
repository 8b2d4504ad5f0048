package import Bytes
package import JSON
package import Timekeeping

/// A notification to a device: a message to show, or a silent push that only wakes the app. Most notifications are
/// ordered by an application server. The daemon itself sends a notification at the end of a call. A notification never
/// announces a call.
///
/// In a ``PushNotification``, an empty string stands for a missing value. Only title and text of a notification are cut
/// if the notification exceeds the provider's limit.
package struct PushNotification: Hashable, Sendable {
    package var title = ByteString.empty
    package var text = ByteString.empty
    /// Whether the push only wakes the app, so that the phone shows no notification.
    package var isSilent = false
    /// Whether the app must report that the push has arrived.
    package var wantsConfirmation = false
    /// Whether the notification is treated as one of the device's unread pushes.
    package var countsInBadge = true
    /// The kind of page in the app that the notification opens; ``destinationContent`` names the page.
    package var destinationType = ByteString.empty
    package var destinationContent = ByteString.empty
    package var imageURL = ByteString.empty
    package var custom: CustomData?
    /// The sound of the notification: the name of a sound file of the app, or `default`; an empty name means `default`.
    package var sound = ByteString.empty
    /// The badge from the application server; `nil` for the daemon's own count of unread pushes.
    package var badge: Int?
    /// The values that only Acrobits' push server understands, for pushes through Acrobits' push server.
    package var mediated: MediatedMessage?
    /// The Call-ID of the waiting MESSAGE that the push announces. The sender of the waiting MESSAGE is in
    /// ``mediated``.
    package var callID = ByteString.empty
    /// The ended call that the push reports; `nil` for any other push.
    package private(set) var endedCall: EndedCallNotice?
    /// The time after which the notification is useless.
    package let expiresAt: UnixTime

    package init(expiresAt: UnixTime) { self.expiresAt = expiresAt }

    /// Creates a push about the call's end, for a phone that got a push for the call and has not registered since.
    package init(_ end: EndedCallNotice, expiresAt: UnixTime) {
        self.expiresAt = expiresAt
        isSilent = true
        endedCall = end
        destinationType = ByteString(end.type)
        destinationContent = ByteString(end.call.callRef.description)
        // Acrobits' push server has one verb for calls that another phone answered or declined.
        var message = MediatedMessage(end.outcome == .missed ? .callMissed : .callAnsweredElsewhere)
        message.id = end.call.callID
        mediated = message
    }

    /// Whether the push counts in the device's badge. A silent push never counts, because it shows nothing to read.
    package var isInBadge: Bool { countsInBadge && !isSilent }

    package static let longestLife: Duration = .seconds(28 * 86_400)
}

/// A call that was announced by a push and has ended.
package struct EndedCallNotice: Hashable, Sendable {
    package enum Outcome: Hashable, Sendable {
        /// The caller hung up, or no phone answered in time.
        case missed
        case answeredElsewhere
        /// Another phone declined the call for all phones.
        case declinedElsewhere
    }

    package let call: IncomingCall
    package let outcome: Outcome

    package init(_ call: IncomingCall, _ outcome: Outcome) {
        self.call = call
        self.outcome = outcome
    }

    /// The daemon's name for the end of a call, for providers and payload formats that define no name.
    var type: String {
        switch outcome {
        case .missed: "call_ended"
        case .answeredElsewhere: "call_answered_elsewhere"
        case .declinedElsewhere: "call_declined_elsewhere"
        }
    }
}

/// A JSON object from an application server; the app gets the object unchanged.
package struct CustomData: Hashable, Sendable {
    /// The application server's object as compact JSON text.
    package let json: [UInt8]
    /// Whether the application server's object has a member `device`, so that the daemon adds none.
    let namesDevice: Bool

    /// The maximum size of the application server's object in bytes; a larger object fits into no provider's push.
    package static let longest = 4096

    /// Creates the custom data from a JSON object; `nil` if the JSON value is no object, or the object is too large.
    package init?(_ value: JSONValue) {
        guard case .object = value else { return nil }
        var json: [UInt8] = []
        value.append(to: &json)
        guard json.count <= Self.longest else { return nil }
        self.json = json
        namesDevice = value["device"] != nil
    }
}

/// The values of a notification that only Acrobits' push server understands.
package struct MediatedMessage: Hashable, Sendable {
    package enum Verb: String, Hashable, Sendable, CaseIterable {
        /// The app fetches its text messages and shows the messages. The selector in the push tells the app which
        /// account to use.
        case text = "NotifyTextMessage"
        /// The app shows the text of the push, and does nothing else.
        case genericText = "NotifyGenericTextMessage"
        /// The call that a push announced has ended unanswered.
        case callMissed = "NotifyIncomingCallMissed"
        /// The call that a push announced was answered on another device.
        case callAnsweredElsewhere = "NotifyIncomingCallAnsweredElsewhere"

        /// Whether the verb for Acrobits' push server is about a call. Application servers cannot use verbs about
        /// calls, because only the daemon knows how a call ended.
        package var isOfCall: Bool { self == .callMissed || self == .callAnsweredElsewhere }
    }

    package var verb: Verb
    /// The name of the sender of the notification's message.
    package var userName = ByteString.empty
    package var userDisplayName = ByteString.empty
    package var contentType = ByteString.empty
    package var id = ByteString.empty
    package var threadID = ByteString.empty

    package init(_ verb: Verb) { self.verb = verb }
}
