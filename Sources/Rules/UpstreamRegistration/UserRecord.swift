import Bytes
import Timekeeping

/// Whether the record's user is registered at the PBX.
package enum RegistrationState: UInt8, Hashable, Sendable, CaseIterable {
    /// The PBX does not know the user yet or any more, and a REGISTER is due or pending.
    case registering
    case registered
    /// The PBX knows the user, and the binding is being renewed.
    case refreshing
    /// The PBX refused the user, and no REGISTER is sent for the user until the credentials change.
    case refused
    /// The PBX has answered that it does not know the user.
    case absent
    /// The registration client is ending the user's binding at the PBX.
    case ending

    package var name: String { "\(self)" }
}

/// The registration client's record of one user, in a compact form because there can be a million users. The user's
/// name and the kept challenge are byte blocks in `UpstreamAgent.slabs`.
struct UserRecord: Sendable {
    var name: ByteSlabs.Place
    var kept = ByteSlabs.Place.none
    var token: UpstreamToken
    /// When the user's binding at the PBX ends, as far as this run of the daemon knows.
    var boundUntil = Instant.distantPast
    /// When the next REGISTER is due, unless a REGISTER is pending or queued.
    var due = Instant.distantPast
    /// The time at which the pending or queued refresh was due.
    var planned = Instant.distantPast
    var deadline = DeadlineID.none
    var cseq: UInt32
    var fingerprint: UInt32
    /// The Unix times in seconds at which the state last changed, a phone last registered, and the user was last
    /// called; 0 without a call.
    var since, lastSign, lastCall: UInt32
    /// The last nonce count (nc) that was sent with the nonce of the kept challenge.
    var nonceCount: UInt32 = 0
    /// The status of the last final response from the PBX; 0 if no response came.
    var status: UInt16 = 0
    let upstream: UInt16
    var state = RegistrationState.registering
    var marks: Marks = []
    var pending = Pending.nothing
    var line = Line.none
    /// The index in `UpstreamStand.servers` of the server that got the last request.
    var server: UInt8 = 0
    /// The servers that failed during the present try, one bit for each index.
    var tried: UInt8 = 0
    var failures: UInt8 = 0
    /// The number of challenges that were answered during the present try.
    var answers: UInt8 = 0
    var algorithms: DigestAlgorithms
    var keptForm = KeptForm(rawValue: 0)
    var end = UpstreamEnd.noDevice
    var refusal = Refusal.none

    /// The kind of the user's last ``UpstreamRefusal``; `passwordAway` means that the HA1 from a source of users is
    /// missing.
    enum Refusal: UInt8 { case none, status, realm, algorithm, noPassword, passwordAway }

    struct Marks: OptionSet, Sendable {
        let rawValue: UInt8
        /// At least one device of the user can be woken by a push.
        static let isWakeable = Marks(rawValue: 1)
        /// The PBX may have a binding of the user that this run of the daemon does not know.
        static let mayBeBound = Marks(rawValue: 2)
        /// After the answer to the pending request, another REGISTER for the user follows.
        static let again = Marks(rawValue: 4)
        /// A 423 response has raised the expiry during the present try.
        static let raised = Marks(rawValue: 8)
        /// The record has no user, and can be used for a new user.
        static let isVacant = Marks(rawValue: 16)
        /// The pending REGISTER answers a challenge that the PBX sent to another user: see ``SharedNonce``.
        static let sharesNonce = Marks(rawValue: 32)
        /// The PBX has accepted the user's present password in this run of the daemon.
        static let isProven = Marks(rawValue: 64)
        /// The present pass over all users has found the user: see ``UpstreamAgent/beginPass()``.
        static let isFound = Marks(rawValue: 128)
    }

    enum Pending: UInt8 { case nothing, bind, end, query }

    /// The queues in which users wait for their REGISTER, the most urgent queue first.
    enum Line: UInt8, CaseIterable {
        case none
        /// Users whose binding must end immediately, so that their calls reach the PBX's voicemail.
        case ending
        case recentlyCalled
        case refreshing
        case others
    }
}
