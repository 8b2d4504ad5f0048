package import Bytes
package import JSON
package import Timekeeping

/// A notification to a device: a message to show, or only a wake-up. An application server has ordered it, or the
/// daemon sends it at the end of a call. A notification never announces a call.
///
/// An empty string means that a value is missing. Title and text are cut to the provider's limit; other values are not.
package struct PushNotification: Hashable, Sendable {
    package var title = ByteString.empty
    package var text = ByteString.empty
    /// Whether the push only wakes the app, and the app shows no notification.
    package var isSilent = false
    /// Whether the app must report that the push has arrived.
    package var wantsConfirmation = false
    /// Whether the notification counts as one of the device's unread pushes.
    package var countsInBadge = true
    /// The kind of the destination that the app opens; ``destinationContent`` identifies the destination.
    package var destinationType = ByteString.empty
    package var destinationContent = ByteString.empty
    package var imageURL = ByteString.empty
    package var custom: CustomData?
    /// The sound: a file of the app, or `default`, which is also used for an empty value.
    package var sound = ByteString.empty
    /// The badge that the application server chose; `nil` for the daemon's own count.
    package var badge: Int?
    /// The members that only Acrobits' mediator supports. Pushes to other providers leave them out.
    package var mediated: MediatedMessage?
    /// The Call-ID of the waiting MESSAGE that the push is about. ``mediated`` names the sender of the MESSAGE.
    package var callID = ByteString.empty
    /// The call whose end the push reports; `nil` for any other push.
    package private(set) var endedCall: EndedCallNotice?
    /// The time at which the notification expires.
    package let expiresAt: UnixTime

    package init(expiresAt: UnixTime) { self.expiresAt = expiresAt }

    /// Creates the notification about the end of a call, for a phone that got a push for the call and did not register.
    package init(_ end: EndedCallNotice, expiresAt: UnixTime) {
        self.expiresAt = expiresAt
        isSilent = true
        endedCall = end
        destinationType = ByteString(end.type)
        destinationContent = ByteString(end.call.callRef.description)
        // The mediator has a single word for calls that were answered elsewhere and calls that were declined elsewhere.
        var message = MediatedMessage(end.outcome == .missed ? .callMissed : .callAnsweredElsewhere)
        message.id = end.call.callID
        mediated = message
    }

    /// Whether the push is counted in the device's badge. A silent push is not, because nobody can read it.
    package var isInBadge: Bool { countsInBadge && !isSilent }

    package static let longestLife: Duration = .seconds(28 * 86_400)
}

/// A call that a push has announced and that has ended.
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

    /// The daemon's own word for the outcome, for providers and payload formats that define none.
    var type: String {
        switch outcome {
        case .missed: "call_ended"
        case .answeredElsewhere: "call_answered_elsewhere"
        case .declinedElsewhere: "call_declined_elsewhere"
        }
    }
}

/// A JSON object from an application server, which is passed on to the app unchanged.
package struct CustomData: Hashable, Sendable {
    /// The object as JSON text, without blanks.
    package let json: [UInt8]
    /// Whether the object has a member `device` of its own.
    let namesDevice: Bool

    /// The maximum size of an object in bytes. A larger object would not fit into the push of any provider.
    package static let longest = 4096

    /// Creates the data from a JSON object. Returns `nil` for any other value, and for an object that is too large.
    package init?(_ value: JSONValue) {
        guard case .object = value else { return nil }
        var json: [UInt8] = []
        value.append(to: &json)
        guard json.count <= Self.longest else { return nil }
        self.json = json
        namesDevice = value["device"] != nil
    }
}

/// The members of a notification that only Acrobits' mediator supports.
package struct MediatedMessage: Hashable, Sendable {
    package enum Verb: String, Hashable, Sendable, CaseIterable {
        /// The app fetches its text messages and shows them. The selector names the app's account.
        case text = "NotifyTextMessage"
        /// The app shows the text and does nothing else.
        case genericText = "NotifyGenericTextMessage"
        /// The announced call has ended and was not answered.
        case callMissed = "NotifyIncomingCallMissed"
        /// The call was answered on another device.
        case callAnsweredElsewhere = "NotifyIncomingCallAnsweredElsewhere"

        /// Whether the verb is about a call. Application servers cannot use such a verb, because only the daemon knows
        /// a call's outcome.
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
