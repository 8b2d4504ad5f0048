package import Timekeeping

/// A short-lived credential of a provider, such as Apple's signed token or Google's access token, and the time of its
/// renewal.
///
/// The cache does no input or output itself: it receives events and returns orders. Only one credential is made at a
/// time.
package struct CredentialCache: Sendable {
    package enum State: Hashable, Sendable {
        /// No credential was made yet. Next: `renewing`.
        case missing
        /// A new credential is being made. The old one is used until it expires. Next: `held`, `unavailable`.
        case renewing(old: Credential?)
        /// A credential is available. Next: `renewing`, `missing`.
        case held(Credential)
        /// The credential could not be made. Next: `renewing`, but not before the instant.
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
        /// Use this credential, and make a new one meanwhile.
        case useAndMake(String)
        /// Make a credential, and let the push wait for it.
        case make
        /// A credential is being made. Let the push wait for it.
        case wait
        /// No credential is available, and none will be soon.
        case giveUp(PushOutcome)
    }

    package private(set) var state = State.missing
    /// How long before its expiry a credential is replaced.
    private let lead: Duration

    /// The minimum age at which a refused credential is replaced. A younger credential is not the cause of the refusal,
    /// and Apple blocks senders that make tokens too often.
    private static let youth: Duration = .seconds(60)

    package init(renewedBeforeEnd lead: Duration) { self.lead = lead }

    /// When the credential must be renewed even if no push asks for it, so that no push has to wait. `nil` while a
    /// credential is being made.
    package var nextRenewal: Instant? {
        switch state {
        case .missing: .distantPast
        case .renewing: nil
        case .held(let credential): credential.renewal
        case .unavailable(let until, _): until
        }
    }

    // MARK: What happened

    /// A push needs the credential.
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

    /// The credential was made.
    package mutating func made(_ value: String, life: Duration, now: Instant) {
        let end = now + max(life, .zero)
        // A credential with a short life is still used for half of it.
        state = .held(
            Credential(value: value, made: now, end: end, renewal: now + max(life - lead, life / 2)))
    }

    /// The credential could not be made. The next try comes after the pause.
    package mutating func failed(_ outcome: PushOutcome, pause: Duration, now: Instant) {
        if case .renewing(var old?) = state, now < old.end {
            old.renewal = now + pause
            state = .held(old)
        } else {
            state = .unavailable(until: now + pause, outcome)
        }
    }

    /// The provider refused a push with this value.
    package mutating func refused(_ value: String, now: Instant) {
        guard case .held(let credential) = state, credential.value == value, now - credential.made >= Self.youth else {
            return
        }
        state = .missing
    }
}
