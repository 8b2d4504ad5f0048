import Timekeeping

/// Pushes to servers that phones have chosen (T46).
extension PushDispatcher {
    /// Refuses a push, because too many pushes to its server are active, or pushes to too many servers.
    func refuse(_ request: PushRequest, toStrangerOf app: PushApp.ID, _ origin: String?, now: Moment) {
        let own = directory[app]?.name ?? ""
        standing(of: app).report.count(.retry(after: nil), at: now.date)
        journal.noPlace(for: origin ?? own, of: own, now: now.instant)
        refuse(request, .queueFull)
    }

    /// Lets a push wait, because its endpoint has answered 429 and the pause is not over.
    func delay(_ entry: Entry, until end: Instant, now: Moment) {
        switch entry.attempt.delayed(until: end) {
        case .arm(let instant): entry.pause = pauses.schedule(entry.request.id, at: instant)
        case .finish(let outcome): finish(entry, outcome, now: now)
        case .none, .enqueue, .send, .renewCredentialAndEnqueue: break
        }
    }

    /// Handles the special cases in the answer of a server that a phone has chosen.
    ///
    /// - Returns: true if the push is sent again with a smaller payload, so that the answer is not the outcome of the
    ///   push.
    func strangerAnswered(_ answer: ProviderAnswer, to entry: Entry, now: Moment) -> Bool {
        switch answer.status {
        case 429:
            entry.server.standing.report.limited += 1
            let asked = answer.retryAfter.flatMap { RetryAfter.duration($0, now: now.date) }
            limited.limit(
                entry.request.token.prid, until: now.instant + (asked ?? LimitedEndpoints.usualPause), now: now.instant)
            return false
        case 413:
            guard !entry.isSmallest, entry.attempt.shrunk() else { return false }
            entry.isSmallest = true
            entry.server.standing.report.retried += 1
            leave(entry, .answered, now: now)
            enqueue(entry, now: now)
            return true
        default: return false
        }
    }
}
