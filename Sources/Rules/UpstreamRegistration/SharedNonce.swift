import Bytes
import SIPGrammar
import Timekeeping

/// The last challenge of a PBX to any user; users without their own challenge can answer it too.
///
/// A nonce belongs to a realm, and not to a user (RFC 7616 section 3.3). After a restart of the PBX, a user with a
/// shared nonce needs one REGISTER instead of two to register again. If a PBX refuses a shared nonce, the registration
/// client shares no nonce with this PBX for an hour.
struct SharedNonce: Sendable {
    private var challenge: DigestChallenge?
    private var form = KeptForm(rawValue: 0)
    private var server: UInt8 = 0
    private var count: UInt32 = 0
    private var givenAt = Instant.distantPast
    private var avoidedUntil = Instant.distantPast

    /// How long a nonce is shared after the PBX sent it, because Asterisk accepts a nonce for 30 seconds only.
    private static let life: Duration = .seconds(20)
    private static let avoidance: Duration = .seconds(3600)

    mutating func given(_ challenge: DigestChallenge, _ form: KeptForm, by server: UInt8, now: Instant) {
        self.challenge = challenge.lasting
        self.form = form
        self.server = server
        // The user who got the challenge uses the nonce count 1.
        count = 1
        givenAt = now
    }

    /// The shared challenge and the next nonce count; `nil` if no challenge is shared now, or the user has no HA1 for
    /// its algorithm.
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

    /// Stops sharing nonces for an hour, because the PBX refused the nonce of another user.
    mutating func refused(now: Instant) {
        challenge = nil
        avoidedUntil = now + Self.avoidance
    }

    /// Drops the challenge, because the PBX has restarted and no longer knows its nonces.
    mutating func forget() { challenge = nil }
}

extension DigestChallenge {
    /// A copy of the challenge that does not keep the bytes of the whole response in memory.
    fileprivate var lasting: DigestChallenge {
        DigestChallenge(
            realm: realm.compacted(), nonce: nonce.compacted(), opaque: opaque?.compacted(),
            algorithm: algorithm?.compacted(), qop: qop?.compacted())
    }
}
