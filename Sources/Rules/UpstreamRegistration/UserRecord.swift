import Bytes
import Timekeeping

/// The state of a user at the PBX.
package enum RegistrationState: UInt8, Hashable, Sendable, CaseIterable {
    /// The PBX does not know the user yet, or no longer.
    case registering
    case registered
    /// The PBX knows the user, and the binding is being renewed.
    case refreshing
    /// The PBX refused the password. Nothing is sent until other credentials come.
    case refused
    /// The PBX has no such user.
    case absent
    /// The binding is being ended.
    case ending

    package var name: String { "\(self)" }
}

/// One user. The record is compact, because there may be a million. Name and kept challenge are blocks in slabs.
struct UserRecord: Sendable {
    var name: ByteSlabs.Place
    var kept = ByteSlabs.Place.none
    var token: UpstreamToken
    /// Until when the PBX knows the user, as far as this run knows.
    var boundUntil = Instant.distantPast
    /// When the next request is due, if nothing is pending or queued.
    var due = Instant.distantPast
    /// When the present refresh was due.
    var planned = Instant.distantPast
    var deadline = DeadlineID.none
    var cseq: UInt32
    var fingerprint: UInt32
    /// Unix seconds.
    var since, lastSign, lastCall: UInt32
    /// How often the nonce of the kept challenge was used.
    var nonceCount: UInt32 = 0
    /// The last final status; 0 if no answer came.
    var status: UInt16 = 0
    let upstream: UInt16
    var state = RegistrationState.registering
    var marks: Marks = []
    var pending = Pending.nothing
    var line = Line.none
    /// The place of the server that the last request went to.
    var server: UInt8 = 0
    /// The servers that failed in this round, one bit each.
    var tried: UInt8 = 0
    var failures: UInt8 = 0
    /// How many challenges with a new nonce were answered in this round.
    var answers: UInt8 = 0
    var algorithms: DigestAlgorithms
    var keptForm = KeptForm(rawValue: 0)
    var end = UpstreamEnd.noDevice
    var refusal = Refusal.none

    /// The kind of the last ``UpstreamRefusal``.
    enum Refusal: UInt8 { case none, status, realm, algorithm, noPassword }

    struct Marks: OptionSet, Sendable {
        let rawValue: UInt8
        /// A device of the user can be woken.
        static let isWakeable = Marks(rawValue: 1)
        /// An earlier run may have registered the user.
        static let mayBeBound = Marks(rawValue: 2)
        /// Something changed while a request was pending, so another round follows.
        static let again = Marks(rawValue: 4)
        /// The expiry was raised in this round after 423.
        static let raised = Marks(rawValue: 8)
        /// The place of the record is free.
        static let isVacant = Marks(rawValue: 16)
        /// The pending request answers the challenge of another user.
        static let sharesNonce = Marks(rawValue: 32)
        /// The PBX has accepted the present password in this run.
        static let isProven = Marks(rawValue: 64)
    }

    enum Pending: UInt8 { case nothing, bind, end, query }

    /// The queues of users who wait for their turn, most urgent at the top.
    enum Line: UInt8, CaseIterable {
        case none
        /// The binding must end at once, so that calls reach the PBX's voicemail.
        case ending
        case recentlyCalled
        case refreshing
        case others
    }
}
