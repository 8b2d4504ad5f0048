package import Timekeeping

/// A short-lived credential for a push provider, such as Apple's signed token or Google's access token, with the time
/// of its renewal.
///
/// A ``CredentialCache`` does no input or output: its methods take events and return orders. The daemon makes only one
/// credential at a time.
package struct CredentialCache: Sendable {
    package enum State: Hashable, Sendable {
        /// No credential has been made yet. The state `missing` is followed by `renewing`.
        case missing
        /// A new credential is being made, and the old credential is used until it expires. The state `renewing` is
        /// followed by `held` or `unavailable`.
        case renewing(old: Credential?)
        /// A valid credential is available. The state `held` is followed by `renewing` or `missing`.
        case held(Credential)
        /// No credential could be made. The state `unavailable` is followed by `renewing`, but not before the given
        /// instant.
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
        /// Use the given credential, and make a new credential at the same time.
        case useAndMake(String)
        /// Make a credential, and let the push wait for the credential.
        case make
        /// Let the push wait for the credential that is being made.
        case wait
        /// End the push with the given outcome, because making a credential has just failed.
        case giveUp(PushOutcome)
    }

    package private(set) var state = State.missing
    /// How long before a credential's expiry the daemon makes the next credential.
    private let lead: Duration

    /// The minimum age at which a refused credential is renewed. A credential younger than one minute cannot be
    /// outdated, and Apple blocks senders that sign tokens too often.
    private static let youth: Duration = .seconds(60)

    package init(renewedBeforeEnd lead: Duration) { self.lead = lead }

    /// The time at which a new credential must be made even without a push; `nil` while a credential is being made.
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

    /// Stores a new credential.
    package mutating func made(_ value: String, life: Duration, now: Instant) {
        let end = now + max(life, .zero)
        // A credential with a short lifetime is renewed after half of its lifetime.
        state = .held(
            Credential(value: value, made: now, end: end, renewal: now + max(life - lead, life / 2)))
    }

    /// Handles a failure to make a credential. The daemon tries again when `pause` is over.
    package mutating func failed(_ outcome: PushOutcome, pause: Duration, now: Instant) {
        if case .renewing(var old?) = state, now < old.end {
            old.renewal = now + pause
            state = .held(old)
        } else {
            state = .unavailable(until: now + pause, outcome)
        }
    }

    /// Handles the push provider's refusal of a credential. A refused credential that is old enough is renewed.
    package mutating func refused(_ value: String, now: Instant) {
        guard case .held(let credential) = state, credential.value == value, now - credential.made >= Self.youth else {
            return
        }
        state = .missing
    }
}
