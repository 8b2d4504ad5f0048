package import Bytes

/// One order of the agent.
package enum UpstreamOrder: Sendable {
    /// Send a REGISTER. Report its result with the order's number.
    case send(RegisterOrder)
    /// Forget this REGISTER, which got no answer in time. Its result is no longer wanted.
    case abandon(RegisterNumber)
    /// Store this ceiling of CSeq, and report ``UpstreamAgent/ceilingStored(_:now:into:)``.
    case storeCeiling(UInt32)
    /// Tell the operator.
    case tell(UpstreamEvent)
}

/// Identifies one REGISTER that was sent.
package struct RegisterNumber: Hashable, Sendable {
    let slot: UInt32
    let cseq: UInt32
}

/// One REGISTER that is to be sent.
package struct RegisterOrder: Sendable {
    package enum Purpose: Hashable, Sendable {
        /// Register the token for so many seconds.
        case bind(UInt32)
        /// End the binding of the token.
        case end
        /// Ask which contacts are stored.
        case query
    }

    package let number: RegisterNumber
    package let user: UpstreamUser
    package let server: UpstreamServer
    package let token: UpstreamToken
    package let callID: ByteString
    /// Whether the REGISTER has a Path to this daemon.
    package let hasPath: Bool
    package let cseq: UInt32
    package let purpose: Purpose
    /// The challenge that the credentials answer; `nil` if no nonce is known.
    package let answer: ChallengeAnswer?
}

/// Why no answer came.
package enum RegisterFailure: Hashable, Sendable {
    /// No answer came, or no connection could be made.
    case noAnswer
    /// The daemon has no HA1 of the user any more.
    case noPassword
    /// The daemon itself cannot send now.
    case busy
}

/// Why the PBX does not know a user, and will not until something changes.
package enum UpstreamRefusal: Hashable, Sendable {
    /// The PBX refused the password, or the user, with this status.
    case status(UInt16)
    /// The PBX asks for a password in this realm, and the daemon has none.
    case realm(ByteString)
    /// The PBX asks for an algorithm or a protection that the daemon has not.
    case algorithm
    /// The daemon has no HA1 of the user.
    case noPassword

    /// The refusal as a part of a sentence whose subject is the PBX.
    package var words: String {
        switch self {
        case .status(let status): "it refused the password (\(status))"
        case .realm(let realm): "it asks for a password in the realm \(realm)"
        case .algorithm: "it asks for a digest algorithm that the stored password has not"
        case .noPassword: "the daemon has no password of the user"
        }
    }

    /// The cure.
    package var advice: String {
        switch self {
        case .status: "set the PBX's password with sippushd user passwd; nothing is sent for the user until then"
        case .realm: "set digest.realm to this realm, and set the passwords again"
        case .algorithm: "let the PBX offer MD5 or SHA-256, or set the password again with sippushd user passwd"
        case .noPassword: "add the user with sippushd user add and the PBX's password"
        }
    }
}

/// Why a user is no longer kept registered.
package enum UpstreamEnd: UInt8, Hashable, Sendable {
    /// The user has no device any more that can be woken.
    case noDevice
    /// No phone of the user has given a sign of life for the time of the setting.
    case noSignOfLife
    /// The user was removed.
    case userRemoved
    /// The settings no longer name the domain, or name another PBX for it.
    case domainRemoved
}

/// News for the log and for operators. None has a token or a nonce.
package enum UpstreamEvent: Hashable, Sendable {
    /// The PBX knows the user now. `after` is how long it did not.
    case registered(UpstreamUser, after: Duration)
    case refused(UpstreamUser, UpstreamRefusal)
    /// The PBX has no such user (404 or 410).
    case unknownUser(UpstreamUser)
    /// The PBX refuses the REGISTER with this status, and is asked again later.
    case failed(UpstreamUser, UInt16)
    /// The binding ended before it could be refreshed.
    case lapsed(UpstreamUser)
    /// The PBX accepted the REGISTER, but does not list our contact.
    case notListed(UpstreamUser)
    /// The user is no longer registered at the PBX.
    case ended(UpstreamUser, UpstreamEnd)
    /// The PBX did not get the end of the binding. Its binding ends by itself.
    case notEnded(UpstreamUser, UpstreamEnd)
    /// The PBX has lost its registrations, or was away. So many users are registered again.
    case registersAgain(UpstreamNumber, users: Int, LossSign)
    /// The PBX grants fewer seconds than the daemon can refresh.
    case grantTooShort(UpstreamNumber, UInt32)
    /// The PBX has refused so many users in a row that the daemon tries one user after each pause.
    case refusesEverybody(UpstreamNumber, pause: Duration)
    /// The PBX takes a REGISTER without asking for a password.
    case unchallenged(UpstreamNumber)
    /// The PBX does not answer queries of contacts, so a short restart is not noticed.
    case answersNoQuery(UpstreamNumber)
    /// The rate of the setting is too low: a user waits for minutes, or a binding ended while its refresh waited.
    case isBehind(UpstreamNumber)
    case serverFails(UpstreamNumber, UpstreamServer)
    case serverAnswers(UpstreamNumber, UpstreamServer)
}

package enum LossSign: Hashable, Sendable {
    /// A server answers again after it was down.
    case answersAgain
    /// A contact that must be there was missing in an answer.
    case contactMissing
    /// An operator ordered it.
    case order
}
