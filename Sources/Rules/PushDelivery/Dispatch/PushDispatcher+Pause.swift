package import Timekeeping

/// Pauses and resumes push providers.
extension PushDispatcher {
    /// Pauses a provider: waiting pushes to the provider end as ``PushRefusal/paused``, and no requests are sent. A
    /// request in flight still gets its answer, but is not retried.
    package func pause(_ provider: PushProvider, now: Moment) {
        guard paused.insert(provider).inserted else { return }
        let waiting = entries.values.filter { $0.server.app.provider == provider && $0.attempt.state != .sent }
        for entry in waiting.sorted(by: { $0.request.id.rawValue < $1.request.id.rawValue }) {
            pauses.cancel(entry.pause)
            entry.pause = .none
            stop(entry, now: now)
        }
        deadlineMayChange()
    }

    /// Ends the pause of a provider.
    package func resume(_ provider: PushProvider) { paused.remove(provider) }

    /// Ends a push without a further try, because its provider is paused.
    func stop(_ entry: Entry, now: Moment) {
        guard entries[entry.request.id] === entry, entry.attempt.cancelled() else { return }
        forget(entry)
        entry.server.standing.report.withdrawn += 1
        refuse(entry.request, .paused)
        leave(entry, .unknown, now: now)
        leaveGate(entry, now: now)
    }
}
