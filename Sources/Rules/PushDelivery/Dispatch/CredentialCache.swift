package import Timekeeping

/// A credential that a provider accepts for a short time, such as Apple's signed token or Google's access token, and
/// the time of its renewal.
///
/// The cache performs no input or output: it receives events and returns orders. Only one credential is made at a time.
package struct CredentialCache: Sendable {
    package enum State: Hashable, Sendable {
        /// No credential was made yet. The next state is `renewing`.
        case missing
        /// A new credential is being made, and the old one is used until it expires. The next state is `held` or
        /// `unavailable`.
        case renewing(old: Credential?)
        /// A credential is available. The next state is `renewing` or `missing`.
        case held(Credential)
        /// The credential could not be made. The next state is `renewing`, but not before this instant.
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
        /// Make a credential, and let the push wait for it.
        case make
        /// Let the push wait for the credential that is being made.
        case wait
        /// End the push with this outcome, because no credential is available, and none will be soon.
        case giveUp(PushOutcome)
    }

    package private(set) var state = State.missing
    /// How long before its expiry a credential is replaced.
    private let lead: Duration

    /// The minimum age at which a refused credential is renewed. A younger credential is not the cause of the refusal,
    /// and Apple blocks senders that make tokens too often.
    private static let youth: Duration = .seconds(60)

    package init(renewedBeforeEnd lead: Duration) { self.lead = lead }

    /// The time at which the credential must be renewed even if no push needs it, so that no push has to wait; `nil`
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

    /// Handles a push that needs the credential.
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
        // A credential with a short lifetime is still used for half of that time.
        state = .held(
            Credential(value: value, made: now, end: end, renewal: now + max(life - lead, life / 2)))
    }

    /// Handles a credential that could not be made. After the pause, it may be tried again.
    package mutating func failed(_ outcome: PushOutcome, pause: Duration, now: Instant) {
        if case .renewing(var old?) = state, now < old.end {
            old.renewal = now + pause
            state = .held(old)
        } else {
            state = .unavailable(until: now + pause, outcome)
        }
    }

    /// Handles a push that the provider has refused because of this credential.
    package mutating func refused(_ value: String, now: Instant) {
        guard case .held(let credential) = state, credential.value == value, now - credential.made >= Self.youth else {
            return
        }
        state = .missing
    }
}
