package import Timekeeping

/// A credential that a provider accepts for a limited time, such as Apple's signed token or Google's access token, and
/// the time of its renewal.
///
/// The cache performs no input or output: it receives events and returns orders. At most one credential is being made
/// at any time.
package struct CredentialCache: Sendable {
    package enum State: Hashable, Sendable {
        /// No credential has been made yet. The state `missing` is followed by `renewing`.
        case missing
        /// A new credential is being made, and the old one is used until it expires. The state `renewing` is followed
        /// by `held` or `unavailable`.
        case renewing(old: Credential?)
        /// A credential is available. The state `held` is followed by `renewing` or `missing`.
        case held(Credential)
        /// No credential could be made. The state `unavailable` is followed by `renewing`, but not before this instant.
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
        /// Use this credential, and make a new one at the same time.
        case useAndMake(String)
        /// Make a credential, and let the push wait until it is made.
        case make
        /// Let the push wait for the credential that is already being made.
        case wait
        /// End the push with this outcome, because a credential could not be made a short time ago.
        case giveUp(PushOutcome)
    }

    package private(set) var state = State.missing
    /// How long before the expiry of a credential the next one is made.
    private let lead: Duration

    /// The minimum age at which a refused credential is renewed. A younger credential cannot be outdated, and Apple
    /// blocks senders that make tokens too often.
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

    /// Decides which credential a push gets, or whether the push waits.
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

    /// Stores a credential that was made.
    package mutating func made(_ value: String, life: Duration, now: Instant) {
        let end = now + max(life, .zero)
        // A credential with a short lifetime is renewed after half of this lifetime.
        state = .held(
            Credential(value: value, made: now, end: end, renewal: now + max(life - lead, life / 2)))
    }

    /// Handles the failure to make a credential. The next try to make a credential comes after `pause` at the earliest.
    package mutating func failed(_ outcome: PushOutcome, pause: Duration, now: Instant) {
        if case .renewing(var old?) = state, now < old.end {
            old.renewal = now + pause
            state = .held(old)
        } else {
            state = .unavailable(until: now + pause, outcome)
        }
    }

    /// Handles the provider's refusal of a credential. If the credential is old enough, a new one will be made.
    package mutating func refused(_ value: String, now: Instant) {
        guard case .held(let credential) = state, credential.value == value, now - credential.made >= Self.youth else {
            return
        }
        state = .missing
    }
}
