package import Addressing
package import Bytes
package import Collections
package import Timekeeping

/// Identifies one record of the timeline within a run of the program.
package struct RecordID: SerialID, Absentable, Sendable {
    package let rawValue: UInt64
    package static var absent: RecordID { RecordID(rawValue: 0) }
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Written by hand, because the synthesized version uses a witness table in other modules.
    @inlinable
    package static func == (left: RecordID, right: RecordID) -> Bool { left.rawValue == right.rawValue }
}

/// The steps that inform one phone about one call, or about its missed calls, each with its time.
///
/// A record is a row of the store, and explains why a phone did not ring. Calls without a push, refused requests and
/// calls that phones make also have records. Refused requests and calls of phones also have the source and the other
/// party. A record contains no token.
package struct TimelineRecord: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        case call
        case missedCalls = "missed-calls"
        /// A push that an application server ordered.
        case notification
        /// A call that a phone makes. `user` and `host` are the caller's; ``TimelineRecord/peer`` is the callee.
        case outgoing
        /// A REGISTER. Only a refused one has a record.
        case register
        /// A contact that ended, because its provider was switched off.
        case contact
    }

    /// Why no push was requested.
    package enum Omission: String, Hashable, Sendable, CaseIterable {
        /// The user does not exist, so the caller gets 404.
        case unknownUser = "unknown-user"
        /// The user has no contact, so the caller gets 480.
        case noContact = "no-contact"
        /// The limit of calls that the daemon serves at a time is reached, so the caller gets 503.
        case tooManyCalls = "too-many-calls"
        /// The contact has no usable push parameters, so it got the INVITE immediately.
        case ordinaryContact = "ordinary-contact"
        /// The contact's provider is switched off, so it got the INVITE immediately.
        case providerOff = "provider-off"
        /// Its provider is paused. The call waited for the phone nevertheless.
        case providerPaused = "provider-paused"
        /// The phone had just registered, so it got the INVITE immediately.
        case justRegistered = "just-registered"
        /// The phone got too many pushes. The call waited for the phone nevertheless.
        case deviceLimit = "device-limit"
        /// The caller woke too many phones. The call waited for this phone nevertheless.
        case callerLimit = "caller-limit"
        /// The token can be used for calls only, or the provider has no such push.
        case notCarried = "not-carried"
    }

    /// How far the push came on the way to the provider.
    package enum Delivery: String, Hashable, Sendable {
        /// No push was requested.
        case none
        case underWay = "under-way"
        /// The last try has its answer.
        case finished
        /// The push was withdrawn before its last try was answered, because the phone had registered or the call was over.
        case withdrawn
        /// The daemon ended before the result was recorded.
        case unknown
    }

    /// The provider's answer to the last try, or the reason for its failure.
    package enum Answer: String, Hashable, Sendable, CaseIterable {
        case accepted
        /// The provider accepted the push, and returned another token for later pushes.
        case acceptedWithNewToken = "new-token"
        case tokenDead = "token-dead"
        /// The provider could not be reached, or failed.
        case failed
        case credentialsRefused = "credentials-refused"
        /// The token belongs to another app than ours.
        case foreignToken = "foreign-token"
        case noConnection = "no-connection"
        case payloadRefused = "payload-refused"
        case noSuitableToken = "no-suitable-token"
        /// The push was not sent, because the queue was full.
        case queueFull = "queue-full"
        /// The push was not sent, because the token belongs to no app in the settings.
        case noApp = "no-app"
        /// It was not sent, because the provider is paused.
        case paused
    }

    /// How the call ended for this phone.
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
        /// The phone did not register while the call waited.
        case timeOver = "time-over"
        /// The wait ended sooner, because the phone's former wakes took less time.
        case boundReached = "bound-reached"
        /// It was pushed and not waited for, because its last ten accepted pushes woke nobody.
        case notWaited = "not-waited"
        /// It did not come in time, and the destination of the forward rang or answered.
        case forwarded
        case signedOut = "signed-out"
        case tokenDead = "token-dead"
        case providerOff = "provider-off"
        /// The push could not be delivered, so the call stopped waiting for the phone.
        case pushFailed = "push-failed"
        /// The caller got ``TimelineRecord/endStatus`` immediately.
        case notOffered = "not-offered"
        /// The daemon was stopped.
        case stopped
        /// The daemon ended without being stopped, and the next run ended the record. Only records of earlier versions
        /// have this end.
        case restarted
    }

    /// The sign of life that released a held call instead of a REGISTER. It arrived on the flow that the phone had
    /// registered.
    package enum SignOfLife: String, Hashable, Sendable, CaseIterable {
        case keepAlive = "keep-alive"
        case request
        case response
    }

    package let id: RecordID
    package let user: ByteString
    package let host: ByteString
    /// The Call-ID; empty for a list of missed calls.
    package let callID: ByteString
    /// The device; 0 if no phone was called.
    package let device: DeviceID
    /// The call; for a list of missed calls, the oldest one.
    @PackedOptional package private(set) var callRef: CallRef?
    package let requestedAt: UnixTime
    /// The code of the push; `nil` if no push was requested.
    @PackedOptional package private(set) var code: PushCode?
    /// The name of the app in logs and commands.
    package var app: String
    private var details = BoxedOptional<Details>()
    package var steps = Steps()
    // Small members are together to save memory, because a held call keeps its records in memory.
    private let callCount: Int32
    @PackedOptional private var httpStatus: Int32?
    private var tryCount: UInt16 = 0
    package var endStatus: UInt16?
    package let kind: Kind
    package let omission: Omission?
    package var delivery: Delivery
    package var answer: Answer?
    /// The sign of life that released the call. `nil` if the phone registered for the call, got it in another way, or
    /// did not get it.
    package var sign: SignOfLife?
    package var end: End?

    /// Values of few pushes while their records are in memory.
    private struct Details: Hashable, Sendable {
        var reason = ""
        var providerID = ByteString.empty
        @PackedOptional var deadSince: UnixTime?
        var marks = PushMarks()
        // Each pushed call has details, and hardly any has an origin.
        var origin = BoxedOptional<Origin>()
    }

    /// Values of refused requests and of calls that phones make.
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

    /// The HTTP status of the last answer.
    package var status: Int? {
        get { httpStatus.map { Int($0) } }
        set { httpStatus = newValue.map { Int32(clamping: $0) } }
    }

    /// The message of the provider or the HTTP client about the last failed try.
    package var reason: String {
        get { details.value?.reason ?? "" }
        set { if reason != newValue { details.change(orNew: Details()) { $0.reason = newValue } } }
    }

    /// Since when the token is dead, as the provider reported.
    package var deadSince: UnixTime? {
        get { details.value?.deadSince }
        set { if deadSince != newValue { details.change(orNew: Details()) { $0.deadSince = newValue } } }
    }

    /// The provider's own id of the push.
    package var providerID: ByteString {
        get { details.value?.providerID ?? .empty }
        set { if providerID != newValue { details.change(orNew: Details()) { $0.providerID = newValue } } }
    }

    /// The app's reports about the push. The daemon may know without the app that the push was read.
    package var marks: PushMarks {
        get { details.value?.marks ?? PushMarks() }
        set { if marks != newValue { details.change(orNew: Details()) { $0.marks = newValue } } }
    }

    /// The source, as address and port; empty if the record does not need it.
    package var source: ByteString {
        get { origin?.source ?? .empty }
        set { if source != newValue { changeOrigin { $0.source = newValue } } }
    }

    /// The URI of the other party, unchanged: the caller of a refused call, or the callee of a phone's call.
    package var peer: ByteString {
        get { origin?.peer ?? .empty }
        set { if peer != newValue { changeOrigin { $0.peer = newValue } } }
    }

    /// Whether the record belongs to a call to this number or user, in any domain.
    package func isFor(_ number: ByteString) -> Bool {
        guard !number.isEmpty, let peer = origin?.peer, !peer.isEmpty else { return false }
        let text = peer.string
        return ["sip:\(number)@", "sips:\(number)@"].contains { text.hasPrefix($0) } || text == "tel:\(number)"
    }

    /// Why the request was refused. `nil` if it was not. Records of refusals are in a separate part of the store.
    package var refusal: Refusal? { origin?.refusal }

    /// The kind of sender that was refused.
    package var share: RefusalShare { origin?.share ?? .stranger }

    /// Turns this record into the record of a refused request.
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

    /// Times in milliseconds after ``TimelineRecord/requestedAt``, by the monotonic clock.
    package struct Steps: Hashable, Sendable {
        /// When the first try was sent.
        @PackedOptional package var sent: Int32?
        /// When the last answer arrived.
        @PackedOptional package var answered: Int32?
        /// When a REGISTER of the phone arrived.
        @PackedOptional package var registered: Int32?
        @PackedOptional package var invited: Int32?
        /// When the phone answered with 180 or a higher status.
        @PackedOptional package var rang: Int32?
        @PackedOptional package var ended: Int32?

        package init() {}
    }

    /// Begins a record without steps. If `omission` is `nil`, a push is requested, and `code` is its code.
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

    /// Whether the provider accepted the push.
    package var wasAccepted: Bool { answer == .accepted || answer == .acceptedWithNewToken }

    /// Whether the record is complete, so that nothing more can happen.
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

/// The time that stands for a missing time. No push is that old.
extension UnixTime: Absentable {
    package static var absent: UnixTime { UnixTime(milliseconds: .min) }
}
