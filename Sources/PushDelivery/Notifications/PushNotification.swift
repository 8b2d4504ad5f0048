package import Bytes
package import JSON
package import Timekeeping

/// What an application server lets a device know: a message to show, or nothing but a wake-up. Never a call.
///
/// Strings are empty where there is nothing to say. Title and text are cut to what the provider takes; nothing else is.
package struct PushNotification: Hashable, Sendable {
    package var title = ByteString.empty
    package var text = ByteString.empty
    /// The app is woken and shows nothing.
    package var isSilent = false
    /// The app is asked to report its arrival.
    package var wantsConfirmation = false
    /// It is one of the device's unread pushes.
    package var countsInBadge = true
    /// Where in the app it leads: what kind of thing, and which.
    package var destinationType = ByteString.empty
    package var destinationContent = ByteString.empty
    package var imageURL = ByteString.empty
    package var custom: CustomData?
    /// A file of the app, or `default`, which it is without one.
    package var sound = ByteString.empty
    /// The sender's own count in place of ours.
    package var badge: Int?
    /// What only Acrobits' mediator understands; other providers pass it over.
    package var mediated: MediatedMessage?
    /// It says that a call is over.
    package private(set) var endedCall: EndedCallNotice?
    /// From then on nobody wants the notification.
    package let expiresAt: UnixTime

    package init(expiresAt: UnixTime) { self.expiresAt = expiresAt }

    /// For a phone that was woken for the call and has not come.
    package init(_ end: EndedCallNotice, expiresAt: UnixTime) {
        self.expiresAt = expiresAt
        isSilent = true
        endedCall = end
        destinationType = ByteString(end.type)
        destinationContent = ByteString(end.call.callRef.description)
        // The mediator does not tell who took it from who declined it.
        var message = MediatedMessage(end.outcome == .missed ? .callMissed : .callAnsweredElsewhere)
        message.id = end.call.callID
        mediated = message
    }

    /// A silent one is nothing that anybody could read.
    package var isInBadge: Bool { countsInBadge && !isSilent }

    package static let longestLife: Duration = .seconds(28 * 86_400)
}

/// A call that a push has told of, and that is over.
package struct EndedCallNotice: Hashable, Sendable {
    package enum Outcome: Hashable, Sendable {
        /// The caller gave up, or nobody took it in time.
        case missed
        case answeredElsewhere
        /// Another phone has declined for all.
        case declinedElsewhere
    }

    package let call: IncomingCall
    package let outcome: Outcome

    package init(_ call: IncomingCall, _ outcome: Outcome) {
        self.call = call
        self.outcome = outcome
    }

    /// Our word for it, where a provider or profile has none.
    var type: String {
        switch outcome {
        case .missed: "call_ended"
        case .answeredElsewhere: "call_answered_elsewhere"
        case .declinedElsewhere: "call_declined_elsewhere"
        }
    }
}

/// A JSON object of the sender's, which is passed on to the app as it is.
package struct CustomData: Hashable, Sendable {
    /// The JSON text, without blanks.
    package let json: [UInt8]

    /// How many bytes there may be: more does not fit into any provider's push.
    package static let longest = 4096

    /// `nil` for what is no object, or too long.
    package init?(_ value: JSONValue) {
        guard case .object = value else { return nil }
        var json: [UInt8] = []
        value.append(to: &json)
        guard json.count <= Self.longest else { return nil }
        self.json = json
    }
}

/// The mediator's own members of a message.
package struct MediatedMessage: Hashable, Sendable {
    package enum Verb: String, Hashable, Sendable, CaseIterable {
        /// The app fetches its messages and then shows them; its account is named by the selector.
        case text = "NotifyTextMessage"
        /// The text is shown, nothing else happens.
        case genericText = "NotifyGenericTextMessage"
        /// The call that a push told of is over, and nobody took it.
        case callMissed = "NotifyIncomingCallMissed"
        /// Somebody has taken it on another device.
        case callAnsweredElsewhere = "NotifyIncomingCallAnsweredElsewhere"

        /// Nobody but us knows when that is so.
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
