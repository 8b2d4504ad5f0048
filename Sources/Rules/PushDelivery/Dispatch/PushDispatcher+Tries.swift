import Addressing
import Telemetry
import Timekeeping

/// Sends the tries of each push, and handles the results.
extension PushDispatcher {
    // MARK: What happened

    func notSent(_ transmission: Transmission, _ outcome: PushOutcome, now: Moment) {
        guard let entry = entry(of: transmission) else { return }
        entry.server.standing.report.sent -= 1
        tell(entry.request.id, .answered(outcome, status: nil, problem: nil))
        abandon(entry, outcome, now: now)
    }

    func answered(_ transmission: Transmission, _ answer: ProviderAnswer, after time: Duration, now: Moment) {
        guard let entry = entry(of: transmission) else { return }
        journal.figures.observe(.pushAnswer, time)
        let isStranger = entry.server.chosenHost != nil
        let answer = isStranger ? answer.ofStranger : answer
        if isStranger, strangerAnswered(answer, to: entry, now: now) { return }
        let standing = entry.server.standing
        var outcome = entry.server.app.outcome(of: answer, isProven: standing.isProven, now: now.date)
            .redacted(of: entry.request.token).redacted(ofCredential: entry.credential)
        // If the provider refuses even a new credential as outdated, this machine's clock is probably wrong.
        if outcome == .renewCredential, entry.attempt.hasRenewedCredential, !entry.attempt.isLast {
            outcome = .credentialsRefused(PushRetries.refusedAgain)
        }
        if case .credentialsRefused(let reason) = outcome, let fault = answer.clockFault(now: now.date) {
            outcome = .credentialsRefused("\(reason): \(fault)")
        }
        standing.report.problem = nil
        if outcome.isAccepted { standing.isProven = true }
        tell(entry.request.id, .answered(outcome, status: answer.status, problem: nil))
        ended(entry, outcome, isFailure: answer.isFailureOfProvider, now: now)
    }

    func unanswered(_ transmission: Transmission, _ outcome: PushOutcome, _ words: String, now: Moment) {
        guard let entry = entry(of: transmission) else { return }
        journal.notReached(entry.server, words, now: now.instant)
        entry.server.standing.report.problem = entry.request.token.struck(from: words)
        let outcome = outcome.redacted(of: entry.request.token)
        tell(entry.request.id, .answered(outcome, status: nil, problem: words))
        ended(entry, outcome, isFailure: true, now: now)
    }

    /// The push of a try (one request to the provider); `nil` if the push has ended.
    private func entry(of transmission: Transmission) -> Entry? {
        guard slots.indices.contains(transmission.slot), let entry = slots[transmission.slot],
            entry.request.id == transmission.push.id
        else { return nil }
        return entry
    }

    private func ended(_ entry: Entry, _ outcome: PushOutcome, isFailure: Bool, now: Moment) {
        // The push is not tried again, because it is no longer needed. Other pushes of the app still need the new
        // credential.
        if outcome == .renewCredential, entry.attempt.isLast {
            credentials.refused(entry.credential, by: entry.server.app.id, now: now.instant)
        }
        let health: PushBreaker.Health = !isFailure ? .answered : entry.attempt.tries > 1 ? .failedAgain : .failed
        leave(entry, health, now: now)
        follow(answer(outcome, to: entry, now: now), entry, now: now)
    }

    // MARK: What follows

    func follow(_ step: PushRetries.Action, _ entry: Entry, now: Moment) {
        switch step {
        case .none: break
        case .enqueue: enqueue(entry, now: now)
        case .renewCredentialAndEnqueue:
            credentials.refused(entry.credential, by: entry.server.app.id, now: now.instant)
            enqueue(entry, now: now)
        case .send(let end): transmit(entry, until: end, now: now)
        case .arm(let instant):
            entry.server.standing.report.retried += 1
            entry.pause = pauses.schedule(entry.request.id, at: instant)
        case .finish(let outcome): finish(entry, outcome, now: now)
        }
    }

    private func answer(_ outcome: PushOutcome, to entry: Entry, now: Moment) -> PushRetries.Action {
        entry.attempt.answered(outcome, chance: .random(in: 0..<1, using: &chances), now: now.instant)
    }

    private func transmit(_ entry: Entry, until end: Instant, now: Moment) {
        switch render(entry, now: now) {
        case .impossible(let outcome): abandon(entry, outcome, now: now)
        case .request(let request):
            actions.append(.send(Transmission(entry, request, until: end)))
            entry.server.standing.report.sent += 1
            tell(entry.request.id, .sent)
        }
    }

    private func render(_ entry: Entry, now: Moment) -> PushRendering {
        let (app, device) = (entry.server.app, entry.request.device)
        return app.render(
            entry.request, isSmallest: entry.isSmallest,
            deviceCode: app.asksForDeviceCode && device != .nobody ? deviceCode(device) : nil,
            now: now.date)
    }

    func abandon(_ entry: Entry, _ outcome: PushOutcome, now: Moment) {
        leave(entry, .unknown, now: now)
        follow(answer(outcome, to: entry, now: now), entry, now: now)
    }

    func finish(_ entry: Entry, _ outcome: PushOutcome, now: Moment) {
        forget(entry)
        tell(entry.request.id, .finished(outcome))
        entry.server.standing.report.count(outcome, at: now.date)
        journal.finished(
            outcome, of: entry.server, token: entry.request.token, tries: entry.attempt.tries, now: now.instant,
            payload: redactedPayload(of: entry, now: now))
        appMonitor.finished(outcome, app: entry.server.app.name, now: now.instant)
        settled.append((entry.request.id, outcome))
    }

    private func redactedPayload(of entry: Entry, now: Moment) -> String {
        switch render(entry, now: now) {
        case .request(let request): RedactedPayload.text(of: request.body)
        case .impossible: "none"
        }
    }
}

/// A generator of random numbers for the pauses between retries (SplitMix64). The generator makes no system calls, and
/// its numbers need not be secret.
struct ChanceGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
