package import Addressing
package import Bytes
package import Collections
package import Timekeeping

/// The number of one timeline record within one run of the daemon.
package struct RecordID: SerialID, Absentable, Sendable {
    package let rawValue: UInt64
    package static var absent: RecordID { RecordID(rawValue: 0) }
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Compares two record ids. The compiler's own comparison would be slow in other modules, because it uses a witness
    /// table.
    @inlinable
    package static func == (left: RecordID, right: RecordID) -> Bool { left.rawValue == right.rawValue }
}

/// The steps, each with its time, by which the daemon notified a phone of a call or of missed calls.
///
/// The store keeps timeline records, which explain why a phone did not ring. Calls without a push, refused requests and
/// calls from phones also have timeline records. Records of refused requests and of calls from phones contain the
/// source address and the other party. No timeline record contains a push token.
package struct TimelineRecord: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        case call
        case missedCalls = "missed-calls"
        /// The record is about a push that an application server ordered.
        case notification
        /// The record is about a call from a phone: `user` and `host` are the caller, and ``TimelineRecord/peer`` is
        /// the callee.
        case outgoing
        /// The record is about a refused REGISTER; accepted REGISTERs have no timeline records.
        case register
        /// The record is about a contact that was removed because its push provider was switched off.
        case contact
    }

    /// Why the daemon requested no push for the call.
    package enum Omission: String, Hashable, Sendable, CaseIterable {
        /// The user does not exist, so the caller gets 404.
        case unknownUser = "unknown-user"
        /// The user has no contact, so the caller gets 480.
        case noContact = "no-contact"
        /// The daemon already serves the maximum number of calls, so the caller gets 503.
        case tooManyCalls = "too-many-calls"
        /// The contact has no usable push parameters, so the contact got the INVITE immediately.
        case ordinaryContact = "ordinary-contact"
        /// The contact's provider is switched off, so the contact got the INVITE immediately.
        case providerOff = "provider-off"
        /// The push provider is paused, so the call waited for the phone without a push.
        case providerPaused = "provider-paused"
        /// The phone had registered just before the call, so the phone got the INVITE immediately.
        case justRegistered = "just-registered"
        /// The phone had reached its limit of pushes per minute, so the call waited for the phone without a push.
        case deviceLimit = "device-limit"
        /// The caller had reached the limit of phones that one caller may wake, so the call waited for the phone
        /// without a push.
        case callerLimit = "caller-limit"
        /// The token is only for calls, or the provider has no pushes for this kind of message.
        case notCarried = "not-carried"
        /// Other devices of the user ring first; ``TimelineRecord/reason`` says for how long.
        case delayed
        /// The user's rules let no device ring; ``TimelineRecord/reason`` says until when.
        case doNotDisturb = "do-not-disturb"
    }

    /// How far the push of the timeline record has come.
    package enum Delivery: String, Hashable, Sendable {
        /// No push was requested.
        case none
        case underWay = "under-way"
        /// The push has its outcome, and no more tries follow.
        case finished
        /// The engine withdrew the push before its outcome was known, because the phone had registered or the call had
        /// ended.
        case withdrawn
        /// The daemon stopped before the outcome was recorded.
        case unknown
    }

    /// The provider's answer to the last try of the push, or the reason why no answer came.
    package enum Answer: String, Hashable, Sendable, CaseIterable {
        case accepted
        /// The provider accepted the push, and returned a new token for later pushes.
        case acceptedWithNewToken = "new-token"
        case tokenDead = "token-dead"
        /// The provider could not be reached, or reported its own failure.
        case failed
        case credentialsRefused = "credentials-refused"
        /// The token belongs to an app that is not in the settings.
        case foreignToken = "foreign-token"
        case noConnection = "no-connection"
        case payloadRefused = "payload-refused"
        case noSuitableToken = "no-suitable-token"
        /// The daemon did not send the push, because the queue was full.
        case queueFull = "queue-full"
        /// The daemon did not send the push, because the token belongs to no app in the settings.
        case noApp = "no-app"
        /// The daemon did not send the push, because an operator has paused the provider.
        case paused
    }

    /// How the call ended for the phone of the record.
    package enum End: String, Hashable, Sendable, CaseIterable {
        case answered
        case answeredElsewhere = "answered-elsewhere"
        case declinedElsewhere = "declined-elsewhere"
        /// The phone sent the final response ``TimelineRecord/endStatus``.
        case refused
        /// The phone got the INVITE and sent no final response.
        case noAnswer = "no-answer"
        /// The INVITE could not be sent to the phone.
        case unreachable
        case callerGaveUp = "caller-gave-up"
        /// An operator ended the call.
        case endedByOperator = "dismissed"
        /// The phone did not register within the ring time, so the call stopped waiting for the phone.
        case timeOver = "time-over"
        /// The call stopped waiting early, because 99 percent of the phone's earlier wakes took less time.
        case boundReached = "bound-reached"
        /// The phone got a push, but the call did not wait, because the phone did not register after its last ten
        /// accepted pushes.
        case notWaited = "not-waited"
        /// The phone did not register in time, and the destination of the forwarded call rang or answered.
        case forwarded
        case signedOut = "signed-out"
        case tokenDead = "token-dead"
        case providerOff = "provider-off"
        /// The push could not be delivered, so the call stopped waiting for the phone.
        case pushFailed = "push-failed"
        /// The daemon refused the call immediately, and the caller got ``TimelineRecord/endStatus``.
        case notOffered = "not-offered"
        /// The turn of the device has come. A further record has the steps after that.
        case turnCame = "turn-came"
        /// The next devices began to ring, so the phone stopped ringing.
        case turnOver = "turn-over"
        /// The daemon was stopped while the timeline record was open.
        case stopped
        /// The daemon stopped unexpectedly, and completed the record after the restart. Only earlier versions of the
        /// daemon wrote records with the end `restarted`.
        case restarted
    }

    /// The kind of the phone's message, other than a REGISTER, that released a held call.
    package enum SignOfLife: String, Hashable, Sendable, CaseIterable {
        case keepAlive = "keep-alive"
        case request
        case response
    }

    package let id: RecordID
    package let user: ByteString
    package let host: ByteString
    /// The Call-ID of the INVITE; empty for a list of missed calls.
    package let callID: ByteString
    /// The id of the device; 0 if no phone got the INVITE or a push.
    package let device: DeviceID
    /// The reference of the call; the record of a list of missed calls has the reference of the oldest call.
    @PackedOptional package private(set) var callRef: CallRef?
    package let requestedAt: UnixTime
    /// The time ``requestedAt`` by the monotonic clock; the distant past for a record that was never open.
    package internal(set) var began = Instant.distantPast
    /// The code of the push; `nil` if no push was requested.
    @PackedOptional package private(set) var code: PushCode?
    /// The name of the push app, as in logs and commands.
    package var app: String
    private var details = BoxedOptional<Details>()
    package var steps = Steps()
    // The small properties are declared together, so that each record needs less memory.
    private let callCount: Int32
    @PackedOptional private var httpStatus: Int32?
    private var tryCount: UInt16 = 0
    package var endStatus: UInt16?
    package let kind: Kind
    package let omission: Omission?
    package var delivery: Delivery
    package var answer: Answer?
    /// The message on the phone's flow that released the call; `nil` if a REGISTER released the call, or the call was
    /// not held or not released.
    package var sign: SignOfLife?
    package var end: End?

    /// The members of a timeline record that only few records need.
    private struct Details: Hashable, Sendable {
        var reason = ""
        var providerID = ByteString.empty
        @PackedOptional var deadSince: UnixTime?
        var marks = PushMarks()
        // The origin is stored separately, because few records have an origin.
        var origin = BoxedOptional<Origin>()
    }

    /// The members that only records of refused requests and of calls from phones need.
    private struct Origin: Hashable, Sendable {
        var source = ByteString.empty
        var peer = ByteString.empty
        var refusal: Refusal?
        var share = RefusalShare.stranger
    }

    private var origin: Origin? { details.value?.origin.value }

    private mutating func changeOrigin(_ body: (inout Origin) -> Void) {
        details.change(orNew: Details()) { $0.origin.change(orNew: Origin(), body) }
    }

    /// The number of calls in the list of missed calls.
    package var calls: Int { Int(callCount) }

    package var tries: Int {
        get { Int(tryCount) }
        set { tryCount = UInt16(clamping: newValue) }
    }

    /// The HTTP status of the push provider's last answer.
    package var status: Int? {
        get { httpStatus.map { Int($0) } }
        set { httpStatus = newValue.map { Int32(clamping: $0) } }
    }

    /// The text from the provider or the HTTP client about the last failed try.
    package var reason: String {
        get { details.value?.reason ?? "" }
        set { if reason != newValue { details.change(orNew: Details()) { $0.reason = newValue } } }
    }

    /// The time since which the push token is dead, according to the provider.
    package var deadSince: UnixTime? {
        get { details.value?.deadSince }
        set { if deadSince != newValue { details.change(orNew: Details()) { $0.deadSince = newValue } } }
    }

    /// The id that the provider assigned to the push.
    package var providerID: ByteString {
        get { details.value?.providerID ?? .empty }
        set { if providerID != newValue { details.change(orNew: Details()) { $0.providerID = newValue } } }
    }

    /// The app's reports about the push. If the daemon itself notices that a push was read, this is stored like a
    /// report of the app.
    package var marks: PushMarks {
        get { details.value?.marks ?? PushMarks() }
        set { if marks != newValue { details.change(orNew: Details()) { $0.marks = newValue } } }
    }

    /// The sender's address and port; empty for kinds of records without source.
    package var source: ByteString {
        get { origin?.source ?? .empty }
        set { if source != newValue { changeOrigin { $0.source = newValue } } }
    }

    /// The URI of the other party, unchanged: the caller of a refused call, or the callee of a call from a phone.
    package var peer: ByteString {
        get { origin?.peer ?? .empty }
        set { if peer != newValue { changeOrigin { $0.peer = newValue } } }
    }

    /// Whether the other party has the telephone number `number`, or the user name `number` in any domain.
    package func isFor(_ number: ByteString) -> Bool {
        guard !number.isEmpty, let peer = origin?.peer, !peer.isEmpty else { return false }
        let text = peer.string
        return ["sip:\(number)@", "sips:\(number)@"].contains { text.hasPrefix($0) } || text == "tel:\(number)"
    }

    /// Why the request was refused; `nil` for a request that was not refused. Records of refused requests have their
    /// own limit in the store.
    package var refusal: Refusal? { origin?.refusal }

    /// The kind of the sender of a refused request.
    package var share: RefusalShare { origin?.share ?? .stranger }

    /// Turns a record into the record of a refused request.
    package mutating func refused(_ refusal: Refusal, _ status: UInt16, share: RefusalShare) {
        changeOrigin {
            $0.refusal = refusal
            $0.share = share
        }
        delivery = .none
        end = .notOffered
        endStatus = status
        steps.ended = 0
    }

    /// Creates a record without steps. If `omission` is `nil`, the daemon requests a push with the code `code`.
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
        callCount = Int32(clamping: calls)
        self.requestedAt = requestedAt
        self.omission = omission
        self.code = code
        self.app = app
        delivery = omission == nil ? .underWay : .none
    }

    /// Whether the push provider has accepted the push.
    package var wasAccepted: Bool { answer == .accepted || answer == .acceptedWithNewToken }

    /// Whether the record is complete, so that no more steps can follow.
    package var isComplete: Bool { delivery != .underWay && (kind != .call && kind != .outgoing || end != nil) }
}

extension TimelineRecord {
    package mutating func noteAnswer(_ outcome: PushOutcome) {
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
            reason = "the credential has expired"
        case .credentialsRefused(let text):
            answer = .credentialsRefused
            reason = text
        case .foreignToken(let text):
            answer = .foreignToken
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

/// The value for a missing time in packed optionals; no push has this time.
extension UnixTime: Absentable {
    package static var absent: UnixTime { UnixTime(milliseconds: .min) }
}
