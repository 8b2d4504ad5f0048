package import Timekeeping

/// A short-lived credential of a provider, and when to make another: Apple's signed token, Google's access token.
///
/// Pure: feed it events; do what it wants. Only one is ever being made.
package struct CredentialCache: Sendable {
    package enum State: Hashable, Sendable {
        /// Next: `renewing`.
        case missing
        /// Another is being made; the old one is used as long as it lasts. Next: `held`, `unavailable`.
        case renewing(old: Credential?)
        /// Next: `renewing`, `missing`.
        case held(Credential)
        /// It could not be made. Next: `renewing`, at the instant.
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
        /// Make another, and use this one meanwhile.
        case useAndMake(String)
        /// Make one; come back when it is there.
        case make
        /// It is being made; come back when it is there.
        case wait
        /// There is none, and will be none soon.
        case giveUp(PushOutcome)
    }

    package private(set) var state = State.missing
    /// How long before its end a credential is replaced.
    private let lead: Duration

    /// A credential that the provider refuses when it is younger than this is not replaced: the fault is elsewhere, and
    /// Apple punishes those who make tokens too often.
    private static let youth: Duration = .seconds(60)

    package init(renewedBeforeEnd lead: Duration) { self.lead = lead }

    /// When one should be made though no push asks: before pushes have to wait for it. `nil` while one is being made.
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

    /// It was made.
    package mutating func made(_ value: String, life: Duration, now: Instant) {
        let end = now + max(life, .zero)
        // Even one with a short life is used for half of it.
        state = .held(
            Credential(value: value, made: now, end: end, renewal: now + max(life - lead, life / 2)))
    }

    /// It could not be made; nobody tries again before the pause is over.
    package mutating func failed(_ outcome: PushOutcome, pause: Duration, now: Instant) {
        if case .renewing(var old?) = state, now < old.end {
            old.renewal = now + pause
            state = .held(old)
        } else {
            state = .unavailable(until: now + pause, outcome)
        }
    }

    /// The provider refused a push that carried this value.
    package mutating func refused(_ value: String, now: Instant) {
        guard case .held(let credential) = state, credential.value == value, now - credential.made >= Self.youth else {
            return
        }
        state = .missing
    }
}
