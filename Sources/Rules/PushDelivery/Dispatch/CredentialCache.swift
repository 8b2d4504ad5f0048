package import Timekeeping

/// A credential that a provider accepts for a limited time, such as Apple's signed token or Google's access token, and
/// the time of its renewal.
///
/// A ``CredentialCache`` performs no input or output: it receives events and returns orders. The cache makes at most
/// one credential at any time.
package struct CredentialCache: Sendable {
    package enum State: Hashable, Sendable {
        /// No credential has been made yet. The credential's state `missing` is followed by `renewing`.
        case missing
        /// A new credential is being made, and the old one is used until it expires. The credential's state `renewing`
        /// is followed by `held` or `unavailable`.
        case renewing(old: Credential?)
        /// A credential for requests to the provider is available. The credential's state `held` is followed by
        /// `renewing` or `missing`.
        case held(Credential)
        /// No credential could be made. The credential's state `unavailable` is followed by `renewing`, but not before
        /// the given instant.
        case unavailable(until: Instant, PushOutcome)
    }

    package struct Credential: Hashable, Sendable {
        package let value: String
        let made: Instant
        let end: Instant
        var renewal: Instant
    }

    package enum Want: Hashable, Sendable {
        case use(String)
        /// Use the given credential, and make a new one at the same time.
        case useAndMake(String)
        /// Make a credential, and let the push wait for the credential.
        case make
        /// Let the push wait for the credential that is already being made.
        case wait
        /// End the push with the given outcome, because making a credential failed a short time ago.
        case giveUp(PushOutcome)
    }

    package private(set) var state = State.missing
    /// How long before the expiry of a credential the daemon makes the next one.
    private let lead: Duration

    /// The minimum age at which a refused credential is renewed. A credential younger than one minute cannot be
    /// outdated, and Apple blocks senders that make tokens too often.
    private static let youth: Duration = .seconds(60)

    package init(renewedBeforeEnd lead: Duration) { self.lead = lead }

    /// The time at which a new credential must be made even if no push needs one, so that no push has to wait; `nil`
    /// while a credential is being made.
    package var nextRenewal: Instant? {
        switch state {
        case .missing: .distantPast
        case .renewing: nil
        case .held(let credential): credential.renewal
        case .unavailable(let until, _): until
        }
    }

    // MARK: What happened

    /// Decides which credential a push gets, or whether the push must wait.
    package mutating func wanted(now: Instant) -> Want {
        switch state {
        case .missing:
            state = .renewing(old: nil)
            return .make
        case .renewing(let old?) where now < old.end: return .use(old.value)
        case .renewing: return .wait
        case .held(let credential):
            guard now >= credential.renewal else { return .use(credential.value) }
            let isUsable = now < credential.end
            state = .renewing(old: isUsable ? credential : nil)
            return isUsable ? .useAndMake(credential.value) : .make
        case .unavailable(let until, let outcome):
            guard now >= until else { return .giveUp(outcome) }
            state = .renewing(old: nil)
            return .make
        }
    }

    /// Stores a new credential for a push provider.
    package mutating func made(_ value: String, life: Duration, now: Instant) {
        let end = now + max(life, .zero)
        // A credential with a short lifetime is renewed after half of this lifetime.
        state = .held(
            Credential(value: value, made: now, end: end, renewal: now + max(life - lead, life / 2)))
    }

    /// Handles the failure to make a credential for a push provider. The next try to make a credential comes after
    /// `pause` at the earliest.
    package mutating func failed(_ outcome: PushOutcome, pause: Duration, now: Instant) {
        if case .renewing(var old?) = state, now < old.end {
            old.renewal = now + pause
            state = .held(old)
        } else {
            state = .unavailable(until: now + pause, outcome)
        }
    }

    /// Handles the push provider's refusal of a credential. If the refused credential is old enough, the daemon will
    /// make a new credential.
    package mutating func refused(_ value: String, now: Instant) {
        guard case .held(let credential) = state, credential.value == value, now - credential.made >= Self.youth else {
            return
        }
        state = .missing
    }
}
