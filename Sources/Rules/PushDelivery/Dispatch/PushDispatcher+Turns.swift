import Timekeeping

/// Decides when each push is sent. A push first passes its server's ``NotificationGate`` and ``PushQueue``, and then
/// waits for a credential.
extension PushDispatcher {
    /// Lets a push wait for its next try, unless its provider was paused after the last try.
    func enqueue(_ entry: Entry, now: Moment) {
        guard !paused.contains(entry.server.app.provider) else { return stop(entry, now: now) }
        arrive(entry, now: now)
    }

    /// Lets a push wait for its turn; the turn of a call's push often comes at once.
    func arrive(_ entry: Entry, now: Moment) {
        if entry.isNotification {
            guard entry.server.gate.arrived(entry.request.id) else { return }
            entry.isInGate = true
        }
        enterQueue(entry, now: now)
    }

    private func enterQueue(_ entry: Entry, now: Moment) {
        switch entry.server.queue.arrived(entry.request.id, now: now.instant) {
        case .start: begin(entry, now: now)
        case .wait: break
        case .refuse:
            tell(entry.request.id, .refused(.queueFull))
            _ = entry.attempt.cancelled()
            finish(entry, .retry(after: nil), now: now)
            leaveGate(entry, now: now)
        }
    }

    /// Starts a push that has left its queue, if the push's credential is available.
    private func begin(_ entry: Entry, now: Moment) {
        entry.hasPlace = true
        guard !paused.contains(entry.server.app.provider) else { return stop(entry, now: now) }
        switch credentials.wanted(by: entry.server.app.id, at: entry.origin, now: now) {
        case .ready(let value, let renewal):
            if let renewal { actions.append(.makeCredential(renewal)) }
            proceed(entry, with: value, now: now)
        case .later(let order, let isNew):
            withoutCredential.append((entry, order))
            if isNew { actions.append(.makeCredential(order)) }
        case .none(let outcome, let problem): giveUp(entry, outcome, problem: problem, now: now)
        }
    }

    private func proceed(_ entry: Entry, with credential: String?, now: Moment) {
        entry.credential = credential
        follow(entry.attempt.turnCame(now: now.instant), entry, now: now)
        // A push whose deadline has passed leaves the queue without a request.
        if entry.attempt.state == .ended { leave(entry, .unknown, now: now) }
    }

    /// Handles a started push for which no credential is available.
    private func giveUp(_ entry: Entry, _ outcome: PushOutcome, problem: String?, now: Moment) {
        if let problem { tell(entry.request.id, .answered(outcome, status: nil, problem: problem)) }
        abandon(entry, outcome, now: now)
    }

    /// Removes a started push from its server's queue, and starts the next pushes.
    func leave(_ entry: Entry, _ health: PushBreaker.Health, now: Moment) {
        guard entry.hasPlace else { return }
        entry.hasPlace = false
        let wasOpen = entry.server.queue.breaker.isOpen
        entry.server.queue.left(health, now: now.instant)
        let isOpen = entry.server.queue.breaker.isOpen
        if isOpen != wasOpen {
            journal.breaker(isOpen: isOpen, to: entry.server, entry.server.standing.report.problem, now: now.instant)
            appMonitor.breaker(
                isOpen: isOpen, app: entry.server.app.name, problem: entry.server.standing.report.problem,
                now: now.instant)
        }
        drain(entry.server, now: now)
        leaveGate(entry, now: now)
    }

    /// Notes that a notification has left its server's queue, and moves waiting notifications of the server into the
    /// queue.
    func leaveGate(_ entry: Entry, now: Moment) {
        guard entry.isInGate else { return }
        entry.isInGate = false
        let server = entry.server
        server.gate.left()
        // If a notification cannot be sent, this method is called again inside the loop. The nested call returns
        // immediately, and the outer call continues with the next notification.
        guard !server.isOpening else { return }
        server.isOpening = true
        while let id = server.gate.next() {
            guard let next = entries[id] else {
                server.gate.left()
                continue
            }
            next.isInGate = true
            enterQueue(next, now: now)
        }
        server.isOpening = false
    }

    func drain(_ server: PushServer, now: Moment) {
        // An event inside this loop can call the method again. The nested call returns immediately, and the outer call
        // starts the next push.
        guard !server.isDraining else { return }
        server.isDraining = true
        while let id = server.queue.next(now: now.instant) {
            if let entry = entries[id] {
                begin(entry, now: now)
            } else {
                server.queue.left(.unknown, now: now.instant)
            }
        }
        server.isDraining = false
    }

    // MARK: Credentials

    func credentialMade(_ order: PushCredentials.Order, _ value: String, life: Duration?, now: Moment) {
        credentials.made(order, value, life: life, now: now)
        for entry in takeWaiting(for: order) { proceed(entry, with: value, now: now) }
    }

    func credentialFailed(_ order: PushCredentials.Order, _ outcome: PushOutcome, problem: String?, now: Moment) {
        credentials.failed(order, outcome, problem: problem, now: now.instant)
        for entry in takeWaiting(for: order) { giveUp(entry, outcome, problem: problem, now: now) }
    }

    /// Orders credentials for the waiting pushes again, because a change of the settings has cancelled the earlier
    /// orders.
    func askAgain(now: Moment) {
        let lost = withoutCredential.filter { !credentials.has($0.order.number) && $0.entry.hasPlace }
        withoutCredential.removeAll { !credentials.has($0.order.number) }
        for (entry, _) in lost { begin(entry, now: now) }
    }

    private func takeWaiting(for order: PushCredentials.Order) -> [Entry] {
        let waiting = withoutCredential.filter { $0.order == order && $0.entry.hasPlace }
        withoutCredential.removeAll { $0.order == order }
        return waiting.map(\.entry)
    }
}
