import Bytes
package import SIPGrammar
import Telemetry
package import Timekeeping

// Handles the responses of PBXs to the daemon's REGISTERs, and REGISTERs that get no response.

extension UpstreamAgent {
    /// Handles a final response to a REGISTER.
    package mutating func responded(
        to number: RegisterNumber, _ response: RegisterResponse, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        guard response.status.isFinal, let (slot, pending) = takePending(number) else { return }
        let upstream = Int(records[Int(slot)].upstream)
        let code = response.status.code
        if pending != .query { records[Int(slot)].status = code }
        if records[Int(slot)].refusal == .passwordAway { records[Int(slot)].refusal = .none }
        if code >= 500 && code < 600 || code == 408 {
            counts.count(.serverFailed)
            serverFailed(slot, pending, wish: response.retryAfter, now: now, into: &orders)
        } else {
            noteAnswer(of: slot, into: &orders)
            switch (code, pending) {
            case (200..<300, .bind): bound(slot, response, now: now, into: &orders)
            case (200..<300, .end): ended(slot, now: now, into: &orders)
            case (200..<300, _): listed(slot, response, now: now, into: &orders)
            case (401, _), (407, _): challenged(slot, pending, response, now: now, into: &orders)
            // If a PBX that has answered queries sends 403, the PBX refuses the password, and not the query.
            case (403, .query) where stands[upstream].watch.answersQueries:
                refuse(slot, .status(code), now: now, into: &orders)
            case (_, .query): queryRefused(slot, now: now, into: &orders)
            case (403, _): refuse(slot, .status(code), now: now, into: &orders)
            case (404, _), (410, _): unknown(slot, now: now, into: &orders)
            case (423, .bind): tooBrief(slot, response, now: now, into: &orders)
            default: refusedForNow(slot, pending, code, now: now, into: &orders)
            }
        }
        settle(slot, now: now, into: &orders)
        pump(upstream, now: now, into: &orders)
    }

    /// Handles a REGISTER that got no response or could not be sent.
    package mutating func failed(
        _ number: RegisterNumber, _ failure: RegisterFailure, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        guard let (slot, pending) = takePending(number) else { return }
        let upstream = Int(records[Int(slot)].upstream)
        switch failure {
        case .noAnswer: noAnswer(slot, pending, now: now, into: &orders)
        case .noPassword:
            _ = stands[upstream].change(records[Int(slot)].server) { $0.leftOpen() }
            refuse(slot, .noPassword, now: now, into: &orders)
        case .passwordAway:
            _ = stands[upstream].change(records[Int(slot)].server) { $0.leftOpen() }
            records[Int(slot)].refusal = .passwordAway
            if pending == .query {
                scheduleNext(slot)
            } else {
                failForNow(slot, pending, longest: Backoff.longest, now: now)
            }
        case .busy:
            _ = stands[upstream].change(records[Int(slot)].server) { $0.leftOpen() }
            postpone(slot, pending, by: .seconds(5), now: now)
        }
        settle(slot, now: now, into: &orders)
        pump(upstream, now: now, into: &orders)
    }

    mutating func noAnswer(
        _ slot: UInt32, _ pending: UserRecord.Pending, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        if pending != .query { records[Int(slot)].status = 0 }
        counts.count(.noAnswer)
        serverFailed(slot, pending, wish: nil, now: now, into: &orders)
    }

    private mutating func takePending(_ number: RegisterNumber) -> (UInt32, UserRecord.Pending)? {
        let place = Int(number.slot)
        guard records.indices.contains(place), records[place].pending != .nothing,
            records[place].cseq == number.cseq
        else { return nil }
        defer { records[place].pending = .nothing }
        unschedule(number.slot)
        return (number.slot, records[place].pending)
    }

    /// Applies the changes of a user that came while the user's request was pending.
    mutating func settle(_ slot: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        let record = records[Int(slot)]
        guard record.pending == .nothing, !record.marks.contains(.isVacant) else { return }
        let isAgain = record.marks.contains(.again)
        records[Int(slot)].marks.remove(.again)
        let isWakeable = record.marks.contains(.isWakeable)
        if !isWakeable, record.state != .ending {
            end(slot, record.end, now: now, into: &orders)
        } else if isWakeable, isAgain || record.state == .ending {
            begin(slot, now: now, into: &orders)
        }
    }

    // MARK: Accepted

    private mutating func bound(
        _ slot: UInt32, _ response: RegisterResponse, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        let place = Int(slot)
        let upstream = Int(records[place].upstream)
        let stand = stands[upstream]
        guard let granted = granted(slot, response, asked: stand.expires) else {
            return notListed(slot, now: now, into: &orders)
        }
        if granted < UpstreamDomain.shortestGrant, stands[upstream].watch.isNewsOfShortGrant() {
            orders.append(.tell(.grantTooShort(UpstreamNumber(records[place].upstream), granted)))
        }
        if records[place].answers == 0, records[place].kept.count == 0,
            // The mark `again` means that a change of the user has removed the pending REGISTER's credentials from the
            // record.
            !records[place].marks.contains(.sharesNonce), !records[place].marks.contains(.again),
            stands[upstream].watch.isNewsOfUnchallenged()
        {
            orders.append(.tell(.unchallenged(UpstreamNumber(records[place].upstream))))
        }
        let seconds = Int64(min(max(granted, UpstreamDomain.shortestGrant), stand.expires))
        let wasBound = records[place].state == .refreshing
        let after = now.date - UnixTime(seconds: Int64(records[place].since))
        counts.count(wasBound ? .refreshed : .registered)
        if wasBound { counts.refreshLag.add(max(.zero, now.instant - records[place].planned)) }
        records[place].marks.remove(.mayBeBound)
        records[place].marks.insert(.isProven)
        records[place].failures = 0
        startRound(slot)
        records[place].boundUntil = now.instant + .seconds(seconds)
        let share = 0.5 + 0.3 * functions.fraction()
        records[place].due = now.instant + .milliseconds(Int64(Double(seconds) * 1000 * share))
        records[place].planned = records[place].due
        turn(slot, to: .registered, now: now)
        scheduleNext(slot)
        stands[upstream].watch.accepted()
        stands[upstream].watch.lastBound = slot
        if stands[upstream].watch.nextQuery == nil {
            stands[upstream].watch.nextQuery = now.instant + UpstreamWatchdog.queryPause
        }
        if !wasBound { orders.append(.tell(.registered(user(at: slot), after: max(.zero, after)))) }
    }

    /// The seconds that the PBX grants to the daemon's contact; `nil` if the response lists only other contacts. The
    /// contact is found by its token alone, because some PBXs rewrite the contact's host.
    private func granted(_ slot: UInt32, _ response: RegisterResponse, asked: UInt32) -> UInt32? {
        guard !response.contacts.isEmpty else {
            // If the 200 lists no contacts, the requested expiry counts, because some registrars violate RFC 3261
            // section 10.3 step 8.
            return response.expires == 0 ? nil : response.expires ?? asked
        }
        let ours = ours(slot, response).map { $0 ?? response.expires ?? asked }
        return ours.max().flatMap { $0 > 0 ? $0 : nil }
    }

    private func ours(_ slot: UInt32, _ response: RegisterResponse) -> [UInt32?] {
        response.contacts.compactMap { isToken($0.user, of: slot) ? .some($0.expires) : nil }
    }

    private mutating func notListed(_ slot: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        counts.count(.other)
        // If the 200 does not list the contact, the contact is treated as lost only if the PBX listed it before. Some
        // PBXs never list certain contacts.
        let wasBound = records[Int(slot)].state == .refreshing
        records[Int(slot)].boundUntil = .distantPast
        if records[Int(slot)].failures == 0 { orders.append(.tell(.notListed(user(at: slot)))) }
        failForNow(slot, .bind, longest: Backoff.longest, now: now)
        let upstream = Int(records[Int(slot)].upstream)
        guard wasBound, stands[upstream].watch.mayRegisterAgain(now: now.instant) else { return }
        registerAll(upstream, .contactMissing, now: now, into: &orders)
    }

    private mutating func ended(_ slot: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        let place = Int(slot)
        counts.count(.ended)
        records[place].boundUntil = .distantPast
        records[place].marks.remove(.mayBeBound)
        if records[place].marks.contains(.isWakeable) { return }
        finish(slot, .ended(user(at: slot), records[place].end), into: &orders)
    }

    // MARK: Refused

    private mutating func challenged(
        _ slot: UInt32, _ pending: UserRecord.Pending, _ response: RegisterResponse, now: Moment,
        into orders: inout [UpstreamOrder]
    ) {
        let place = Int(slot)
        let upstream = Int(records[place].upstream)
        let realm = stands[upstream].setup.realm
        if records[place].marks.contains(.sharesNonce) { stands[upstream].shared.refused(now: now.instant) }
        guard
            let (challenge, algorithm) = ChallengeAnswer.strongest(
                of: response.challenges, realm: realm, records[place].algorithms)
        else {
            let other = response.challenges.first {
                $0.realm != realm && !response.challenges.contains { $0.realm == realm }
            }
            if let other { stands[upstream].askedRealm = other.realm.compacted() }
            return refuse(slot, other.map { .realm($0.realm.compacted()) } ?? .algorithm, now: now, into: &orders)
        }
        if stands[upstream].askedRealm != realm { stands[upstream].askedRealm = realm }
        // A 401 to the first REGISTER does not mean that the password is wrong, because the REGISTER may have answered
        // an old nonce. A 401 to a REGISTER with a new nonce refuses the password, unless the PBX says "stale".
        if records[place].answers > 0 {
            guard challenge.isStale else {
                return refuse(slot, .status(response.status.code), now: now, into: &orders)
            }
            guard records[place].answers < Self.mostAnswers else {
                return refusedForNow(slot, pending, response.status.code, now: now, into: &orders)
            }
        }
        counts.count(.challenged)
        records[place].answers += 1
        let isForProxy = response.status.code == 407
        let form = KeptForm(challenge, algorithm, isForProxy: isForProxy)
        keep(challenge, form, for: slot)
        stands[upstream].shared.given(challenge, form, by: records[place].server, now: now.instant)
        guard records[place].kept.count > 0 else {
            // The registration client cannot answer a challenge that is too long to be stored.
            return refusedForNow(slot, pending, response.status.code, now: now, into: &orders)
        }
        send(slot, pending, to: records[place].server, now: now, into: &orders)
    }

    private static let mostAnswers: UInt8 = 3

    /// Stops the REGISTERs of a user whom the PBX refuses, until the user's credentials change.
    mutating func refuse(
        _ slot: UInt32, _ reason: UpstreamRefusal, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        let place = Int(slot)
        let upstream = Int(records[place].upstream)
        counts.count(.refused)
        if case .status(let code) = reason { records[place].status = code }
        records[place].refusal = reason.kind
        records[place].marks.remove(.isProven)
        forgetChallenge(slot)
        unschedule(slot)
        records[place].line = .none
        let pause =
            reason == .noPassword ? nil : stands[upstream].watch.refused(jitter: functions.fraction(), now: now.instant)
        if let pause { orders.append(.tell(.refusesEverybody(UpstreamNumber(records[place].upstream), pause: pause))) }
        guard records[place].marks.contains(.isWakeable) else {
            return finish(slot, .notEnded(user(at: slot), records[place].end), into: &orders)
        }
        orders.append(.tell(.refused(user(at: slot), reason)))
        turn(slot, to: .refused, now: now)
    }

    private mutating func unknown(_ slot: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        let place = Int(slot)
        counts.count(.unknownUser)
        records[place].boundUntil = .distantPast
        records[place].marks.remove(.mayBeBound)
        guard records[place].marks.contains(.isWakeable) else {
            return finish(slot, .ended(user(at: slot), records[place].end), into: &orders)
        }
        orders.append(.tell(.unknownUser(user(at: slot))))
        turn(slot, to: .absent, now: now)
    }

    private mutating func tooBrief(
        _ slot: UInt32, _ response: RegisterResponse, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        let place = Int(slot)
        let upstream = Int(records[place].upstream)
        counts.count(.tooBrief)
        guard let least = response.minExpires, least <= UpstreamDomain.longestGrant,
            !records[place].marks.contains(.raised)
        else { return refusedForNow(slot, .bind, response.status.code, now: now, into: &orders) }
        stands[upstream].expires = max(stands[upstream].expires, least)
        records[place].marks.insert(.raised)
        records[place].answers = 0
        send(slot, .bind, to: records[place].server, now: now, into: &orders)
    }

    /// Schedules another try after the PBX has refused a REGISTER with a status that can be temporary.
    private mutating func refusedForNow(
        _ slot: UInt32, _ pending: UserRecord.Pending, _ code: UInt16, now: Moment,
        into orders: inout [UpstreamOrder]
    ) {
        counts.count(.other)
        if pending == .query { return queryRefused(slot, now: now, into: &orders) }
        if records[Int(slot)].failures == 0 { orders.append(.tell(.failed(user(at: slot), code))) }
        failForNow(slot, pending, longest: .seconds(3600), now: now)
    }

    // MARK: Failed

    private mutating func noteAnswer(of slot: UInt32, into orders: inout [UpstreamOrder]) {
        let upstream = Int(records[Int(slot)].upstream)
        let news = stands[upstream].change(records[Int(slot)].server) { breaker in
            defer { breaker.answered() }
            return breaker.isPaused ? breaker.server : nil
        }
        guard let news, let server = news else { return }
        orders.append(.tell(.serverAnswers(UpstreamNumber(records[Int(slot)].upstream), server)))
    }

    private mutating func serverFailed(
        _ slot: UInt32, _ pending: UserRecord.Pending, wish: UInt32?, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        let place = Int(slot)
        let upstream = Int(records[place].upstream)
        let number = UpstreamNumber(records[place].upstream)
        let jitter = functions.fraction()
        let failed = stands[upstream].change(records[place].server) { breaker in
            breaker.failed(wish: wish, jitter: jitter, now: now.instant) ? breaker.server : nil
        }
        if let failed, let server = failed { orders.append(.tell(.serverFails(number, server))) }
        guard pending != .query else { return postpone(slot, .query, by: .zero, now: now) }
        records[place].tried |= 1 << records[place].server
        guard stands[upstream].hasOther(than: records[place].tried, now: now.instant) else {
            return failForNow(slot, pending, longest: Backoff.longest, now: now)
        }
        records[place].answers = 0
        if records[place].state != .ending { turnToWork(slot, now: now) }
        enqueue(slot, now: now)
    }

    private mutating func failForNow(
        _ slot: UInt32, _ pending: UserRecord.Pending, longest: Duration, now: Moment
    ) {
        let failures = records[Int(slot)].failures
        records[Int(slot)].failures = min(failures + 1, 16)
        startRound(slot)
        postpone(slot, pending, by: Backoff.pause(failures, functions.fraction(), longest: longest), now: now)
    }

    // MARK: Queries

    private mutating func listed(
        _ slot: UInt32, _ response: RegisterResponse, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        let upstream = Int(records[Int(slot)].upstream)
        startRound(slot)
        guard ours(slot, response).isEmpty else {
            stands[upstream].watch.queryFound()
            return scheduleNext(slot)
        }
        switch stands[upstream].watch.queryMissed(now: now.instant) {
        case .lost:
            scheduleNext(slot)
            registerAll(upstream, .contactMissing, now: now, into: &orders)
        case .answersNoQuery, .nothing: queryRefused(slot, now: now, into: &orders)
        }
    }

    private mutating func queryRefused(_ slot: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        let upstream = Int(records[Int(slot)].upstream)
        startRound(slot)
        _ = stands[upstream].watch.queryIsUseless(now: now.instant)
        orders.append(.tell(.answersNoQuery(UpstreamNumber(records[Int(slot)].upstream))))
        scheduleNext(slot)
    }
}

extension UpstreamRefusal {
    fileprivate var kind: UserRecord.Refusal {
        switch self {
        case .status: .status
        case .realm: .realm
        case .algorithm: .algorithm
        case .noPassword: .noPassword
        }
    }
}
