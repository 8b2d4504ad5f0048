package import Bytes
package import Timekeeping

// Handles users who get their first wakeable device or lose their last one. Also has the queues of users who wait for
// their REGISTER.

extension UpstreamAgent {
    /// Begins to keep a user registered, because a push can wake one of the user's devices. At the start, the engine
    /// reports each user with a device that a push can wake; later the engine reports the user after each REGISTER of a
    /// phone.
    package mutating func userIsWakeable(_ user: WakeableUser, now: Moment, into orders: inout [UpstreamOrder]) {
        guard isActive, stands.indices.contains(user.upstream.index) else { return }
        guard let slot = slot(of: UpstreamUser(user.upstream, user.name)) else {
            guard let slot = makeRecord(user, now: now) else { return }
            begin(slot, now: now, into: &orders)
            return pump(user.upstream.index, now: now, into: &orders)
        }
        let place = Int(slot)
        records[place].marks.insert(.isFound)
        // The contacts of a removed user stay. Only a known password keeps the binding that ends.
        guard !isRemoved(slot) || user.fingerprint != nil && !user.algorithms.isEmpty else { return }
        records[place].lastSign = max(records[place].lastSign, Self.seconds(user.lastSign))
        let isNews =
            user.fingerprint.map { records[place].fingerprint != $0 || records[place].algorithms != user.algorithms }
            ?? records[place].algorithms.isEmpty
        let wasWakeable = records[place].marks.contains(.isWakeable)
        let isRefused = records[place].state == .refused || records[place].state == .absent
        let isWorthATry = isRefused ? isWorthAnotherTry(slot, now: now) : !wasWakeable
        if !wasWakeable { records[place].marks.insert(.isWakeable) }
        guard isNews || isWorthATry else { return }
        if isNews {
            records[place].fingerprint = user.fingerprint ?? 0
            records[place].algorithms = user.algorithms
        }
        records[place].marks.insert(.isWakeable)
        if isNews {
            forgetChallenge(slot)
            records[place].marks.remove(.isProven)
        }
        // A registered user's new credentials are used by the next refresh.
        guard !wasWakeable || records[place].state != .registered else { return }
        begin(slot, now: now, into: &orders)
        pump(user.upstream.index, now: now, into: &orders)
    }

    /// Whether the binding ends because the user was removed.
    private func isRemoved(_ slot: UInt32) -> Bool {
        !records[Int(slot)].marks.contains(.isWakeable) && records[Int(slot)].end == .userRemoved
    }

    /// Whether a phone's REGISTER starts another try (at most once an hour) for a user whom the PBX did not know.
    /// Another try is harmless, because a PBX cannot lock out an unknown user. A user whose password the PBX has
    /// refused is not tried again.
    func isWorthAnotherTry(_ slot: UInt32, now: Moment) -> Bool {
        let record = records[Int(slot)]
        return record.state == .absent && Self.seconds(now.date) >= record.since &+ 3600
    }

    /// Notes the HA1 from a source of users for a pending REGISTER.
    package mutating func passwordFound(_ user: UpstreamUser, _ algorithms: DigestAlgorithms, fingerprint: UInt32) {
        guard let slot = slot(of: user) else { return }
        let place = Int(slot)
        if records[place].fingerprint != fingerprint { records[place].marks.remove(.isProven) }
        records[place].fingerprint = fingerprint
        records[place].algorithms = algorithms
    }

    /// Ends a user's binding immediately, because no device of the user can be woken any more, or the user was removed.
    package mutating func userEnded(
        _ user: UpstreamUser, _ reason: UpstreamEnd, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        guard isActive, let slot = slot(of: user) else { return }
        end(slot, reason, now: now, into: &orders)
        pump(user.upstream.index, now: now, into: &orders)
    }

    /// Notes that the user was called, because users with recent calls are registered before others.
    package mutating func userCalled(_ user: UpstreamUser, now: Moment) {
        guard let slot = slot(of: user) else { return }
        records[Int(slot)].lastCall = Self.seconds(now.date)
    }

    /// Registers one user or all users of a PBX again on an operator's order, even users whom the PBX has refused.
    package mutating func retryOrdered(
        _ upstream: UpstreamNumber, user name: ByteString?, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        guard isActive, stands.indices.contains(upstream.index) else { return }
        stands[upstream.index].watch.accepted()
        if let name {
            guard let slot = slot(of: UpstreamUser(upstream, name)) else { return }
            begin(slot, now: now, into: &orders)
        } else {
            registerAll(upstream.index, .order, now: now, into: &orders)
        }
        pump(upstream.index, now: now, into: &orders)
    }

    // MARK: Beginning and ending

    /// Puts a user into the queue for a new REGISTER; if a request is pending, the user enters the queue after the
    /// answer.
    mutating func begin(_ slot: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        let place = Int(slot)
        guard records[place].pending == .nothing else {
            records[place].marks.insert(.again)
            return
        }
        records[place].failures = 0
        startRound(slot)
        guard records[place].marks.contains(.isWakeable) else {
            return end(slot, records[place].end, now: now, into: &orders)
        }
        guard !records[place].algorithms.isEmpty else {
            return refuse(slot, .noPassword, now: now, into: &orders)
        }
        records[place].planned = now.instant
        turnToWork(slot, now: now)
        enqueue(slot, now: now)
    }

    mutating func startRound(_ slot: UInt32) {
        records[Int(slot)].tried = 0
        records[Int(slot)].answers = 0
        records[Int(slot)].marks.remove(.raised)
    }

    mutating func end(_ slot: UInt32, _ reason: UpstreamEnd, now: Moment, into orders: inout [UpstreamOrder]) {
        let place = Int(slot)
        let wasWakeable = records[place].marks.contains(.isWakeable)
        records[place].marks.remove(.isWakeable)
        records[place].end = reason
        // The answer to the pending request shows whether the PBX has a binding, so ``settle(_:now:into:)`` ends the
        // binding later.
        guard records[place].pending == .nothing else { return }
        let isBound = records[place].boundUntil > now.instant
        let isRefused = records[place].state == .refused || records[place].state == .absent
        if isRefused, reason == .noDevice || reason == .noSignOfLife {
            // The record of the refusal stays. Therefore the refused password is not repeated when a phone signs out
            // and in again (T38.2).
            if isBound, wasWakeable { orders.append(.tell(.notEnded(user(at: slot), reason))) }
            return
        }
        guard isBound || records[place].marks.contains(.mayBeBound), records[place].state != .absent else {
            // The PBX has no binding of the user, so no REGISTER must end a binding.
            return removeRecord(slot)
        }
        guard records[place].state != .refused else {
            // No REGISTER is sent, because the refused password could lock the account at the PBX.
            return finish(slot, .notEnded(user(at: slot), reason), into: &orders)
        }
        if !isBound { records[place].boundUntil = now.instant + .seconds(stands[Int(records[place].upstream)].expires) }
        records[place].failures = 0
        startRound(slot)
        turn(slot, to: .ending, now: now)
        enqueue(slot, now: now)
    }

    mutating func finish(_ slot: UInt32, _ event: UpstreamEvent, into orders: inout [UpstreamOrder]) {
        orders.append(.tell(event))
        removeRecord(slot)
    }

    // MARK: Turns

    /// Puts the user into the queue for the user's urgency, even if the user waits in another queue.
    mutating func enqueue(_ slot: UInt32, now: Moment) {
        let place = Int(slot)
        let line = line(of: slot, now: now)
        guard records[place].line != line else { return }
        let upstream = Int(records[place].upstream)
        records[place].line = line
        stands[upstream].append(slot, to: line)
        if records[place].state == .refreshing || records[place].state == .ending {
            schedule(slot, at: records[place].boundUntil)
        } else {
            schedule(slot, at: now.instant + Self.longWait)
        }
        guard stands[upstream].waitingCount > 2 * records.count + 1024 else { return }
        stands[upstream].sweep { slot, line in records[Int(slot)].line == line }
    }

    /// The maximum usual wait of an unregistered user; a longer wait shows that the setting `rate` is too low.
    private static let longWait: Duration = .seconds(300)

    private func line(of slot: UInt32, now: Moment) -> UserRecord.Line {
        let record = records[Int(slot)]
        guard record.state != .ending else { return .ending }
        if record.lastCall > 0, Self.seconds(now.date) < record.lastCall &+ Self.recent { return .recentlyCalled }
        return record.boundUntil > now.instant ? .refreshing : .others
    }

    /// How long a call is treated as recent, in seconds: a week.
    private static let recent: UInt32 = 7 * 86_400

    /// Sends the REGISTERs of waiting users within the rate, and sets `wakeAt` for the users who must still wait.
    mutating func pump(_ upstream: Int, now: Moment, into orders: inout [UpstreamOrder]) {
        stands[upstream].wakeAt = nil
        while isActive, stands[upstream].hasWaiting {
            let earliest = max(stands[upstream].nextTurn, stands[upstream].watch.pausedUntil ?? .distantPast)
            guard earliest <= now.instant else {
                stands[upstream].wakeAt = earliest
                return
            }
            guard stands[upstream].server(now: now.instant, after: 0) != nil else {
                stands[upstream].wakeAt = stands[upstream].nextTrial
                return
            }
            if let ceiling = cseqs.ceilingToStore(now: now) { orders.append(.storeCeiling(ceiling)) }
            guard cseqs.number(after: 0, at: now.date) != nil else {
                stands[upstream].wakeAt = now.instant + .seconds(10)
                return
            }
            guard let (slot, line) = stands[upstream].popFirst() else { return }
            guard records[Int(slot)].line == line else { continue }
            records[Int(slot)].line = .none
            guard let server = stands[upstream].server(now: now.instant, after: records[Int(slot)].tried) else {
                continue
            }
            stands[upstream].watch.began(now: now.instant)
            let purpose: UserRecord.Pending = records[Int(slot)].state == .ending ? .end : .bind
            send(slot, purpose, to: server, now: now, into: &orders)
        }
    }

    /// Sends a REGISTER for a user, with credentials for the user's kept challenge.
    mutating func send(
        _ slot: UInt32, _ pending: UserRecord.Pending, to server: UInt8, now: Moment,
        into orders: inout [UpstreamOrder]
    ) {
        let place = Int(slot)
        let upstream = Int(records[place].upstream)
        let (setup, expires) = (stands[upstream].setup, stands[upstream].expires)
        guard
            let target = stands[upstream].change(
                server,
                { breaker in
                    breaker.used()
                    return breaker.server
                })
        else { return }
        guard let cseq = cseqs.number(after: records[place].cseq, at: now.date) else {
            // The user's CSeq is above the stored ceiling, because the user has sent more than one request a second.
            _ = stands[upstream].change(server) { $0.leftOpen() }
            return postpone(slot, pending, by: .seconds(60), now: now)
        }
        records[place].cseq = cseq
        records[place].pending = pending
        records[place].server = server
        if pending == .bind { records[place].marks.insert(.mayBeBound) }
        schedule(slot, at: now.instant + Self.patience)
        stands[upstream].tookTurn(now: now.instant)
        counts.sent &+= 1
        let user = user(at: slot)
        orders.append(
            .send(
                RegisterOrder(
                    number: RegisterNumber(slot: slot, cseq: cseq), user: user, server: target,
                    token: token(of: slot),
                    callID: functions.callID(
                        of: user.name, at: setup.domain, upstream: setup.name),
                    hasPath: setup.hasPath, cseq: cseq, purpose: pending.purpose(expires),
                    answer: answer(slot, realm: setup.realm, now: now))))
    }

    /// How long the daemon waits for the answer to a REGISTER.
    private static let patience: Duration = .seconds(10)

    private mutating func answer(_ slot: UInt32, realm: ByteString, now: Moment) -> ChallengeAnswer? {
        let record = records[Int(slot)]
        records[Int(slot)].marks.remove(.sharesNonce)
        guard record.kept.count > 0 else { return sharedAnswer(slot, now: now) }
        guard
            let challenge = slabs.withBytes(
                record.kept, { KeptChallenge.challenge($0, record.keptForm, realm: realm) })
        else { return nil }
        records[Int(slot)].nonceCount = record.nonceCount &+ 1
        return ChallengeAnswer(
            challenge: challenge, algorithm: record.keptForm.algorithm,
            isForProxy: record.keptForm.contains(.isForProxy), count: record.nonceCount &+ 1,
            cnonce: functions.random())
    }

    private mutating func sharedAnswer(_ slot: UInt32, now: Moment) -> ChallengeAnswer? {
        let record = records[Int(slot)]
        // A nonce for another user is answered only with a password that the PBX has accepted before, because a wrong
        // password would count twice.
        guard record.pending == .bind, record.marks.contains(.isProven),
            let (challenge, form, count) = stands[Int(record.upstream)].shared.use(
                record.algorithms, at: record.server, now: now.instant)
        else { return nil }
        records[Int(slot)].marks.insert(.sharesNonce)
        return ChallengeAnswer(
            challenge: challenge, algorithm: form.algorithm, isForProxy: form.contains(.isForProxy), count: count,
            cnonce: functions.random())
    }

    /// Schedules the next try for a user, after a pause.
    mutating func postpone(_ slot: UInt32, _ pending: UserRecord.Pending, by pause: Duration, now: Moment) {
        let place = Int(slot)
        guard pending != .query else { return scheduleNext(slot) }
        records[place].due = now.instant + pause
        if records[place].state != .ending { turnToWork(slot, now: now) }
        scheduleNext(slot)
    }

    /// Sets the user's timer for the next request, or for the end of the binding if it comes earlier.
    mutating func scheduleNext(_ slot: UInt32) {
        let record = records[Int(slot)]
        let ends = record.state == .refreshing || record.state == .ending
        schedule(slot, at: ends ? min(record.due, record.boundUntil) : record.due)
    }
}

extension UserRecord.Pending {
    fileprivate func purpose(_ expires: UInt32) -> RegisterOrder.Purpose {
        switch self {
        case .nothing, .query: .query
        case .bind: .bind(expires)
        case .end: .end
        }
    }
}
