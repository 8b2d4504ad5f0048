package import Timekeeping

/// A short-lived credential of a provider, such as Apple's signed token or Google's access token, and when to make
/// another.
///
/// It does no input or output itself: it is told what happens, and says what to do. Only one credential is made at a
/// time.
package struct CredentialCache: Sendable {
    package enum State: Hashable, Sendable {
        /// Next: `renewing`.
        case missing
        /// Another is being made. The old one is used as long as it lasts. Next: `held`, `unavailable`.
        case renewing(old: Credential?)
        /// Next: `renewing`, `missing`.
        case held(Credential)
        /// It could not be made. Next: `renewing`, not before the instant.
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
        /// Make another, and use this one in the meantime.
        case useAndMake(String)
        /// Make one, and let the push wait for it.
        case make
        /// One is being made. Let the push wait for it.
        case wait
        /// There is none, and will be none soon.
        case giveUp(PushOutcome)
    }

    package private(set) var state = State.missing
    /// How long before its end a credential is replaced.
    private let lead: Duration

    /// A refused credential that is younger than this is not replaced: the fault lies elsewhere, and Apple punishes
    /// those who make tokens too often.
    private static let youth: Duration = .seconds(60)

    package init(renewedBeforeEnd lead: Duration) { self.lead = lead }

    /// When to make a credential without a push that asks for one, so that no push has to wait; `nil` while one is
    /// being made.
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
        // Even one with a short life is used for half of it.
        state = .held(
            Credential(value: value, made: now, end: end, renewal: now + max(life - lead, life / 2)))
    }

    /// The credential could not be made. Nobody tries again before the pause is over.
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
