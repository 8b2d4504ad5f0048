package import Bytes

/// An order of the ``UpstreamAgent`` to the engine.
package enum UpstreamOrder: Sendable {
    /// Send a REGISTER, and report its result with the number of the order.
    case send(RegisterOrder)
    /// Give up the REGISTER that got no answer in time, and do not report its result.
    case abandon(RegisterNumber)
    /// Store the given upper bound for CSeq numbers, and report the write to
    /// ``UpstreamAgent/ceilingStored(_:now:into:)``.
    case storeCeiling(UInt32)
    /// Report the given event to the operator.
    case tell(UpstreamEvent)
}

/// Identifies one REGISTER that was sent, by the slot index of the user's record and the CSeq.
package struct RegisterNumber: Hashable, Sendable {
    let slot: UInt32
    let cseq: UInt32
}

/// A REGISTER that the engine must send.
package struct RegisterOrder: Sendable {
    package enum Purpose: Hashable, Sendable {
        /// Register the daemon's contact for the user at the PBX, for the given number of seconds.
        case bind(UInt32)
        /// End the binding of the daemon's contact at the PBX.
        case end
        /// Send a REGISTER without Contact, to ask which contacts of the user the PBX has.
        case query
    }

    package let number: RegisterNumber
    package let user: UpstreamUser
    package let server: UpstreamServer
    /// The user part of the contact: an ``UpstreamToken``, or the token of a ``TokenSeal``.
    package let token: ByteString
    package let callID: ByteString
    /// Whether the REGISTER has a Path header field with the address of this daemon.
    package let hasPath: Bool
    package let cseq: UInt32
    package let purpose: Purpose
    /// The challenge that the credentials answer; `nil` for a REGISTER without credentials.
    package let answer: ChallengeAnswer?
}

/// Why a REGISTER got no answer from the PBX.
package enum RegisterFailure: Hashable, Sendable {
    /// The PBX sent no answer, or refused the connection.
    case noAnswer
    /// The daemon has no HA1 of the user any more to answer the challenge.
    case noPassword
    /// The source of users with the user's HA1 does not answer now.
    case passwordAway
    /// The transaction table is full.
    case busy
}

/// Why a user cannot be registered at the PBX until an operator changes something.
package enum UpstreamRefusal: Hashable, Sendable {
    /// The PBX refused the REGISTER of the user with the given status.
    case status(UInt16)
    /// The PBX asks for a password in the given realm, for which the daemon has no password.
    case realm(ByteString)
    /// The PBX offers no digest algorithm and qop for which the daemon has an HA1.
    case algorithm
    /// The daemon knows no HA1 of the user.
    case noPassword

    /// The refusal as a clause for messages, after the name of the PBX.
    package var words: String {
        switch self {
        case .status(let status): "it refused the password (\(status))"
        case .realm(let realm): "it asks for a password in the realm \(realm)"
        case .algorithm: "it asks for a digest algorithm that the stored password has not"
        case .noPassword: "the daemon has no password of the user"
        }
    }

    /// How the operator can make the PBX accept the user.
    package var advice: String {
        switch self {
        case .status: "set the PBX's password with sippushd user passwd; nothing is sent for the user until then"
        case .realm: "set digest.realm to this realm, and set the passwords again"
        case .algorithm: "let the PBX offer MD5 or SHA-256, or set the password again with sippushd user passwd"
        case .noPassword:
            "add the user with sippushd user add and the PBX's password, or to a source of users; a bearer token is no password for the PBX"
        }
    }
}

/// Why the daemon no longer keeps a user registered at the PBX.
package enum UpstreamEnd: UInt8, Hashable, Sendable {
    /// No device of the user can be woken any more.
    case noDevice
    /// No phone of the user has registered within the time in the setting `keep-for`.
    case noSignOfLife
    /// The user was removed from the daemon.
    case userRemoved
    /// The settings no longer name the user's domain, or now name another PBX for the domain.
    case domainRemoved
}

/// An event for the log and for operators, without an ``UpstreamToken`` or nonce.
package enum UpstreamEvent: Hashable, Sendable {
    /// The PBX has registered a user who was unknown to the PBX for the duration `after`.
    case registered(UpstreamUser, after: Duration)
    case refused(UpstreamUser, UpstreamRefusal)
    /// The PBX answered that it has no such user (404 or 410).
    case unknownUser(UpstreamUser)
    /// The PBX refused the REGISTER with the given status, and the registration client tries again later.
    case failed(UpstreamUser, UInt16)
    /// The binding of the user at the PBX ended before it could be refreshed.
    case lapsed(UpstreamUser)
    /// The PBX accepted the REGISTER, but does not list the daemon's contact in its response.
    case notListed(UpstreamUser)
    /// The user is no longer registered at the PBX, for the given reason.
    case ended(UpstreamUser, UpstreamEnd)
    /// The PBX keeps the user's binding until its expiry, because the REGISTER that should end the binding was refused
    /// or not sent.
    case notEnded(UpstreamUser, UpstreamEnd)
    /// The given number of users register again: the PBX has lost its registrations or was away, or an operator ordered
    /// it.
    case registersAgain(UpstreamNumber, users: Int, LossSign)
    /// The PBX grants so few seconds that the daemon cannot refresh in time.
    case grantTooShort(UpstreamNumber, UInt32)
    /// The PBX has refused many users in a row, so the daemon tries one user after each pause.
    case refusesEverybody(UpstreamNumber, pause: Duration)
    /// The PBX accepts REGISTERs without asking for a password.
    case unchallenged(UpstreamNumber)
    /// The PBX lists no contacts in the answer to a query, so the daemon cannot notice a short restart of the PBX.
    case answersNoQuery(UpstreamNumber)
    /// The setting `rate` is too low: a user waits for minutes, or a binding ended while its refresh waited.
    case isBehind(UpstreamNumber)
    case serverFails(UpstreamNumber, UpstreamServer)
    case serverAnswers(UpstreamNumber, UpstreamServer)
}

package enum LossSign: Hashable, Sendable {
    /// A server of the PBX answers again after it was down.
    case answersAgain
    /// The PBX did not list the contact of a user who must be registered.
    case contactMissing
    /// A server of the PBX went down, and its users are registered at another server.
    case serverDown
    /// An operator ordered that all users register again.
    case order
}
