import Bytes
import SIPGrammar
import Timekeeping

/// The last challenge of a PBX, which users without a nonce of their own may answer too.
///
/// A nonce belongs to a realm, and not to a user (RFC 7616 section 3.3). Users who register again after a restart of the
/// PBX then need one REGISTER each, instead of two. A PBX that accepts no nonce of another user shows that once an hour.
struct SharedNonce: Sendable {
    private var challenge: DigestChallenge?
    private var form = KeptForm(rawValue: 0)
    private var server: UInt8 = 0
    private var count: UInt32 = 0
    private var givenAt = Instant.distantPast
    private var avoidedUntil = Instant.distantPast

    /// Asterisk takes a nonce for half a minute.
    private static let life: Duration = .seconds(20)
    private static let avoidance: Duration = .seconds(3600)

    mutating func given(_ challenge: DigestChallenge, _ form: KeptForm, by server: UInt8, now: Instant) {
        self.challenge = challenge.lasting
        self.form = form
        self.server = server
        // The user who got the challenge answers it first.
        count = 1
        givenAt = now
    }

    /// The challenge with the number of this use; `nil` if there is none that can be answered with these algorithms.
    mutating func use(
        _ algorithms: DigestAlgorithms, at server: UInt8, now: Instant
    ) -> (DigestChallenge, KeptForm, UInt32)? {
        guard let challenge, challenge.qop != nil, server == self.server, now - givenAt < Self.life,
            now >= avoidedUntil,
            algorithms.contains(DigestAlgorithms(of: form.algorithm))
        else { return nil }
        count &+= 1
        return (challenge, form, count)
    }

    /// The PBX did not accept the nonce of another user.
    mutating func refused(now: Instant) {
        challenge = nil
        avoidedUntil = now + Self.avoidance
    }

    /// The PBX has lost its nonces.
    mutating func forget() { challenge = nil }
}

extension DigestChallenge {
    /// A copy that does not keep the bytes of the response alive.
    fileprivate var lasting: DigestChallenge {
        DigestChallenge(
            realm: realm.compacted(), nonce: nonce.compacted(), opaque: opaque?.compacted(),
            algorithm: algorithm?.compacted(), qop: qop?.compacted())
    }
}
