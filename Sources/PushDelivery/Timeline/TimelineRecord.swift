package import Addressing
package import Bytes
package import Timekeeping

/// Names one record of the timeline within a run of the program.
package struct RecordID: Hashable, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// What was done so that one phone learns of one call, or of the calls it missed: each step and when it was.
///
/// A row of the store, for whoever asks why a phone did not ring. Calls that no push was sent for have one as well. Holds
/// no token and no caller.
package struct TimelineRecord: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        case call
        case missedCalls = "missed-calls"
        /// Ordered by an application server.
        case notification
    }

    /// Why no push was asked for.
    package enum Omission: String, Hashable, Sendable, CaseIterable {
        /// Nobody has that name: 404.
        case unknownUser = "unknown-user"
        /// The user has no contact: 480.
        case noContact = "no-contact"
        /// There are as many calls as the daemon serves at a time: 503.
        case tooManyCalls = "too-many-calls"
        /// The contact has no push parameters that can be used: it got the INVITE at once.
        case ordinaryContact = "ordinary-contact"
        /// Its provider is switched off: it got the INVITE at once.
        case providerOff = "provider-off"
        /// It had just registered: it got the INVITE at once.
        case justRegistered = "just-registered"
        /// It had too many pushes; the call waited for it all the same.
        case deviceLimit = "device-limit"
        /// The caller woke too many phones; the call waited for it all the same.
        case callerLimit = "caller-limit"
        /// Its token carries nothing but calls, or its provider has no such push.
        case notCarried = "not-carried"
    }

    /// How far the push came on its way to the provider.
    package enum Delivery: String, Hashable, Sendable {
        /// No push was asked for.
        case none
        case underWay = "under-way"
        /// The last try has its answer.
        case finished
        /// Taken back before that: the phone was there, or the call over.
        case withdrawn
        /// The daemon ended before it was written down.
        case unknown
    }

    /// What the provider said to the last try, or what stood in its way.
    package enum Answer: String, Hashable, Sendable, CaseIterable {
        case accepted
        /// And named another token to use from now on.
        case acceptedWithNewToken = "new-token"
        case tokenDead = "token-dead"
        /// It could not be reached, or had trouble of its own.
        case failed
        case credentialsRefused = "credentials-refused"
        case noConnection = "no-connection"
        case payloadRefused = "payload-refused"
        case noSuitableToken = "no-suitable-token"
        /// Not sent: too many wait already.
        case queueFull = "queue-full"
        /// Not sent: no app of the settings is meant by that token.
        case noApp = "no-app"
    }

    /// How it ended for this phone.
    package enum End: String, Hashable, Sendable, CaseIterable {
        case answered
        case answeredElsewhere = "answered-elsewhere"
        case declinedElsewhere = "declined-elsewhere"
        /// The phone said so, with ``TimelineRecord/endStatus``.
        case refused
        /// It got the INVITE and gave no final answer.
        case noAnswer = "no-answer"
        /// The INVITE could not be sent to it.
        case unreachable
        case callerGaveUp = "caller-gave-up"
        /// An operator ended the call.
        case dismissed
        /// It did not register while the call waited.
        case timeOver = "time-over"
        case signedOut = "signed-out"
        case tokenDead = "token-dead"
        case providerOff = "provider-off"
        /// The push could not be delivered, so nothing was left to wait for.
        case pushFailed = "push-failed"
        /// The caller got ``TimelineRecord/endStatus`` at once.
        case notOffered = "not-offered"
        /// The daemon was stopped.
        case stopped
        /// The daemon ended without being stopped, and ran again when the record ended.
        case restarted
    }

    /// What let a held call out when no REGISTER did: it came on the very flow that the phone registered on.
    package enum SignOfLife: String, Hashable, Sendable, CaseIterable {
        case keepAlive = "keep-alive"
        case request
        case response
    }

    package let id: RecordID
    package let kind: Kind
    package let user: ByteString
    package let host: ByteString
    /// 0 when no phone was to be called.
    package let device: DeviceID
    /// Of a list of missed calls: the oldest.
    package let callRef: CallRef?
    /// Empty for a list of missed calls.
    package let callID: ByteString
    /// Calls in the list of missed ones.
    package let calls: Int
    package let requestedAt: UnixTime
    package let omission: Omission?

    /// The provider's or the app's name in logs and settings.
    package var app: String
    /// The push's; `nil` when none was asked for.
    package let code: PushCode?
    package var delivery: Delivery
    package var tries = 0
    package var answer: Answer?
    /// The HTTP status of the last answer.
    package var status: Int?
    /// What the provider or the HTTP client said to what did not succeed, of the last such try.
    package var reason = ""
    /// Since when the token is dead, by the provider's word.
    package var deadSince: UnixTime?
    /// The provider's own name of the push.
    package var providerID = ByteString.empty
    package var steps = Steps()
    /// `nil` when the phone has registered for the call, or got it in another way, or not at all.
    package var sign: SignOfLife?
    /// What the app said of the push; of `read` also what we know without it.
    package var marks = PushMarks()
    package var end: End?
    package var endStatus: UInt16?
    /// It is in the store as a call under way, and leaves there when it is complete.
    package var hasOpening = false

    /// Milliseconds after ``TimelineRecord/requestedAt``, by the monotonic clock.
    package struct Steps: Hashable, Sendable {
        /// When the first try was sent.
        package var sent: Int32?
        /// When the last answer came.
        package var answered: Int32?
        /// A REGISTER of the phone came.
        package var registered: Int32?
        package var invited: Int32?
        /// The phone answered 180 or more.
        package var rang: Int32?
        package var ended: Int32?

        package init() {}
    }

    /// The beginning; everything else is as if nothing had happened. Without an omission a push is asked for, and has a
    /// code.
    package init(
        id: RecordID, kind: Kind, user: ByteString, host: ByteString, device: DeviceID, callRef: CallRef?,
        callID: ByteString, calls: Int = 1, requestedAt: UnixTime, omission: Omission?, code: PushCode? = nil,
        app: String = ""
    ) {
        self.id = id
        self.kind = kind
        self.user = user
        self.host = host
        self.device = device
        self.callRef = callRef
        self.callID = callID
        self.calls = calls
        self.requestedAt = requestedAt
        self.omission = omission
        self.code = code
        self.app = app
        delivery = omission == nil ? .underWay : .none
    }

    /// A crash or the like has ended the call; how far its push came nobody knows.
    package mutating func cutOff(by date: UnixTime) {
        if delivery == .underWay { delivery = .unknown }
        end = .restarted
        steps.ended = Int32(
            clamping: date.milliseconds.subtractingReportingOverflow(requestedAt.milliseconds).partialValue)
    }

    /// The provider took the push.
    package var wasAccepted: Bool { answer == .accepted || answer == .acceptedWithNewToken }

    /// Nothing more can happen.
    package var isComplete: Bool { delivery != .underWay && (kind != .call || end != nil) }
}

extension TimelineRecord {
    mutating func noteAnswer(_ outcome: PushOutcome) {
        switch outcome {
        case .accepted(let id):
            answer = .accepted
            providerID = id ?? .empty
        case .acceptedWithNewToken: answer = .acceptedWithNewToken
        case .tokenDead(let since):
            answer = .tokenDead
            deadSince = since
        case .retry: answer = .failed
        case .renewCredential:
            answer = .credentialsRefused
            reason = "the credential is out of date"
        case .credentialsRefused(let text):
            answer = .credentialsRefused
            reason = text
        case .noConnection(let text):
            answer = .noConnection
            reason = text
        case .payloadRefused(let text):
            answer = .payloadRefused
            reason = text
        case .noSuitableToken: answer = .noSuitableToken
        }
    }
}
