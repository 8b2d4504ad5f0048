package import Bytes
package import JSON
package import Timekeeping

/// A notification to a device: a message to show, or only a wake-up. An application server ordered it, or the daemon
/// reports the end of a call. It never announces a call.
///
/// Empty strings mean that a value is missing. Title and text are cut to the provider's limit; other values are not.
package struct PushNotification: Hashable, Sendable {
    package var title = ByteString.empty
    package var text = ByteString.empty
    /// Whether the app is woken and shows nothing.
    package var isSilent = false
    /// Whether the app is asked to report the arrival.
    package var wantsConfirmation = false
    /// Whether the notification counts as one of the device's unread pushes.
    package var countsInBadge = true
    /// The kind of the destination in the app. The next property is the destination's identifier.
    package var destinationType = ByteString.empty
    package var destinationContent = ByteString.empty
    package var imageURL = ByteString.empty
    package var custom: CustomData?
    /// The sound: a file of the app, or `default`, which is also used if this is empty.
    package var sound = ByteString.empty
    /// The badge that the sender chose instead of the daemon's.
    package var badge: Int?
    /// Members that only Acrobits' mediator supports. Pushes to other providers omit them.
    package var mediated: MediatedMessage?
    /// The Call-ID of the held MESSAGE that the push announces. ``mediated`` names the sender.
    package var callID = ByteString.empty
    /// The call whose end the push reports, if it is such a push.
    package private(set) var endedCall: EndedCallNotice?
    /// When the notification expires.
    package let expiresAt: UnixTime

    package init(expiresAt: UnixTime) { self.expiresAt = expiresAt }

    /// Notifies a phone that got a push for a call and did not register that the call is over.
    package init(_ end: EndedCallNotice, expiresAt: UnixTime) {
        self.expiresAt = expiresAt
        isSilent = true
        endedCall = end
        destinationType = ByteString(end.type)
        destinationContent = ByteString(end.call.callRef.description)
        // The mediator has one word for calls that were answered and calls that were declined elsewhere.
        var message = MediatedMessage(end.outcome == .missed ? .callMissed : .callAnsweredElsewhere)
        message.id = end.call.callID
        mediated = message
    }

    /// Whether the push counts in the device's badge. A silent push does not, because nobody can read it.
    package var isInBadge: Bool { countsInBadge && !isSilent }

    package static let longestLife: Duration = .seconds(28 * 86_400)
}

/// A call that a push announced and that is over.
package struct EndedCallNotice: Hashable, Sendable {
    package enum Outcome: Hashable, Sendable {
        /// The caller gave up, or no phone answered in time.
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

    /// The daemon's own word for the outcome, for providers and profiles that have none.
    var type: String {
        switch outcome {
        case .missed: "call_ended"
        case .answeredElsewhere: "call_answered_elsewhere"
        case .declinedElsewhere: "call_declined_elsewhere"
        }
    }
}

/// A JSON object of the sender, which is passed on to the app unchanged.
package struct CustomData: Hashable, Sendable {
    /// The object as JSON text, without blanks.
    package let json: [UInt8]
    /// Whether the object has its own member `device`.
    let namesDevice: Bool

    /// The maximum size in bytes. A larger object fits into no provider's push.
    package static let longest = 4096

    /// Accepts a JSON object. `nil` for any other value, and for an object that is too long.
    package init?(_ value: JSONValue) {
        guard case .object = value else { return nil }
        var json: [UInt8] = []
        value.append(to: &json)
        guard json.count <= Self.longest else { return nil }
        self.json = json
        namesDevice = value["device"] != nil
    }
}

/// The members of a message that only Acrobits' mediator has.
package struct MediatedMessage: Hashable, Sendable {
    package enum Verb: String, Hashable, Sendable, CaseIterable {
        /// The app fetches its messages and then shows them. The selector names its account.
        case text = "NotifyTextMessage"
        /// The text is shown without further effect.
        case genericText = "NotifyGenericTextMessage"
        /// The call that a push announced is over, and was not answered.
        case callMissed = "NotifyIncomingCallMissed"
        /// The call was answered on another device.
        case callAnsweredElsewhere = "NotifyIncomingCallAnsweredElsewhere"

        /// Whether the verb refers to a call. Application servers cannot send such a verb, because only the daemon
        /// knows a call's outcome.
        package var isOfCall: Bool { self == .callMissed || self == .callAnsweredElsewhere }
    }

    package var verb: Verb
    /// The name of the sender.
    package var userName = ByteString.empty
    package var userDisplayName = ByteString.empty
    package var contentType = ByteString.empty
    package var id = ByteString.empty
    package var threadID = ByteString.empty

    package init(_ verb: Verb) { self.verb = verb }
}
