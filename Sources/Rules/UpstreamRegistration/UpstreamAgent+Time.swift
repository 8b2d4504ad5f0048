package import Addressing
package import Timekeeping

// Handles timers, and servers that fail and return. Registers all users again after a PBX has lost its registrations.

extension UpstreamAgent {
    /// Handles all timers and queries that are due, and sends the REGISTERs of the next users in the queues.
    ///
    /// - Precondition: `now` is not earlier than in the last call.
    package mutating func due(now: Moment, into orders: inout [UpstreamOrder]) {
        guard isActive else { return forgetLater(now: now.instant) }
        while let slot = timers.popExpired(now: now.instant) {
            records[Int(slot)].deadline = .none
            timerFired(slot, now: now, into: &orders)
        }
        for upstream in stands.indices {
            if let next = stands[upstream].watch.nextQuery, next <= now.instant {
                stands[upstream].watch.nextQuery = now.instant + UpstreamWatchdog.queryPause
                query(upstream, now: now, into: &orders)
            }
            pump(upstream, now: now, into: &orders)
        }
    }

    /// Notes that the store has a new ceiling of CSeq numbers, and sends the REGISTERs that waited for the ceiling.
    package mutating func ceilingStored(_ ceiling: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        cseqs.stored(ceiling)
        for upstream in stands.indices { pump(upstream, now: now, into: &orders) }
    }

    private mutating func timerFired(_ slot: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        let place = Int(slot)
        let pending = records[place].pending
        guard pending == .nothing else {
            orders.append(.abandon(RegisterNumber(slot: slot, cseq: records[place].cseq)))
            records[place].pending = .nothing
            noAnswer(slot, pending, now: now, into: &orders)
            return settle(slot, now: now, into: &orders)
        }
        if records[place].line != .none { noteWait(slot, now: now, into: &orders) }
        if records[place].boundUntil <= now.instant {
            switch records[place].state {
            case .ending: return finish(slot, .ended(user(at: slot), records[place].end), into: &orders)
            case .refreshing, .registered: lapsed(slot, now: now, into: &orders)
            case .registering, .refused, .absent: break
            }
        }
        guard records[place].line == .none else { return }
        switch records[place].state {
        case .refused, .absent: return
        case .registered where isForgotten(slot, now: now):
            return end(slot, .noSignOfLife, now: now, into: &orders)
        case .registered: records[place].planned = records[place].due
        case .registering, .refreshing, .ending: break
        }
        guard records[place].due <= now.instant else { return scheduleNext(slot) }
        startRound(slot)
        if records[place].state != .ending { turnToWork(slot, now: now) }
        enqueue(slot, now: now)
    }

    /// Logs that users wait too long for their REGISTER only because of the setting `rate`.
    private mutating func noteWait(_ slot: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        let upstream = Int(records[Int(slot)].upstream)
        guard stands[upstream].watch.pausedUntil == nil, stands[upstream].server(now: now.instant, after: 0) != nil,
            stands[upstream].watch.isNewsOfBehind(now: now.instant)
        else { return }
        orders.append(.tell(.isBehind(UpstreamNumber(UInt16(upstream)))))
    }

    private mutating func lapsed(_ slot: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        turn(slot, to: .registering, now: now)
        orders.append(.tell(.lapsed(user(at: slot))))
    }

    /// Whether the last REGISTER of the user's phones is longer ago than the setting `keep-for` allows.
    private func isForgotten(_ slot: UInt32, now: Moment) -> Bool {
        let record = records[Int(slot)]
        return isForgotten(UnixTime(seconds: Int64(record.lastSign)), at: Int(record.upstream), now: now)
    }

    func isForgotten(_ lastSign: UnixTime, at upstream: Int, now: Moment) -> Bool {
        !stands.indices.contains(upstream) || lastSign + stands[upstream].setup.keepFor < now.date
    }

    // MARK: Queries

    /// Asks the PBX for the contacts of one registered user. If the PBX does not list the daemon's contact, the PBX has
    /// lost its registrations.
    private mutating func query(_ upstream: Int, now: Moment, into orders: inout [UpstreamOrder]) {
        guard let slot = nextForQuery(upstream) else {
            stands[upstream].watch.nextQuery = nil
            return
        }
        guard stands[upstream].watch.pausedUntil == nil,
            cseqs.number(after: records[Int(slot)].cseq, at: now.date) != nil,
            let server = stands[upstream].server(now: now.instant, after: 0)
        else { return }
        startRound(slot)
        send(slot, .query, to: server, now: now, into: &orders)
    }

    /// Chooses the user for the next query: the search continues where it ended, and examines at most 64 users.
    private mutating func nextForQuery(_ upstream: Int) -> UInt32? {
        for _ in 0..<min(64, records.count) {
            stands[upstream].watch.cursor = (stands[upstream].watch.cursor + 1) % records.count
            if isFitForQuery(stands[upstream].watch.cursor, upstream) { return UInt32(stands[upstream].watch.cursor) }
        }
        guard let last = stands[upstream].watch.lastBound, records.indices.contains(Int(last)),
            isFitForQuery(Int(last), upstream)
        else { return nil }
        return last
    }

    private func isFitForQuery(_ place: Int, _ upstream: Int) -> Bool {
        let record = records[place]
        return Int(record.upstream) == upstream && record.state == .registered && record.pending == .nothing
            && !record.marks.contains(.isVacant)
    }

    /// Registers all users of a PBX again, one after the other.
    mutating func registerAll(_ upstream: Int, _ sign: LossSign, now: Moment, into orders: inout [UpstreamOrder]) {
        guard isActive else { return }
        var count = 0
        stands[upstream].shared.forget()
        for place in records.indices where Int(records[place].upstream) == upstream {
            let slot = UInt32(place)
            let state = records[place].state
            guard !records[place].marks.contains(.isVacant),
                sign == .order || state != .refused && state != .absent
            else { continue }
            if sign == .contactMissing, state == .registered || state == .refreshing {
                records[place].boundUntil = .distantPast
            }
            count += 1
            // The kept challenge is dropped, because a restarted PBX does not know its nonces.
            if records[place].pending == .nothing { forgetChallenge(slot) }
            guard state != .ending else {
                if records[place].pending == .nothing { enqueue(slot, now: now) }
                continue
            }
            begin(slot, now: now, into: &orders)
        }
        if count > 0 {
            orders.append(.tell(.registersAgain(UpstreamNumber(UInt16(upstream)), users: count, sign)))
        }
    }

    // MARK: Servers

    /// Stores the servers that a DNS look-up of the PBX found, the preferred server first. An empty list means that the
    /// look-up failed, and changes nothing.
    package mutating func serversFound(
        _ servers: [UpstreamServer], of upstream: UpstreamNumber, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        guard stands.indices.contains(upstream.index), !servers.isEmpty else { return }
        stands[upstream.index].found(servers)
        pump(upstream.index, now: now, into: &orders)
    }

    /// Stops the REGISTERs to a server that answered OPTIONS before and no longer answers. The failed server's users
    /// are registered at another server, because nobody could reach them through the failed server.
    package mutating func serverWentDown(at endpoint: Endpoint, now: Moment, into orders: inout [UpstreamOrder]) {
        for upstream in stands.indices {
            for place in stands[upstream].servers.indices
            where stands[upstream].servers[place].server.endpoint == endpoint {
                guard stands[upstream].change(UInt8(place), { $0.wentDown() }) == true else { continue }
                moveUsers(of: UInt8(place), upstream, now: now, into: &orders)
            }
            pump(upstream, now: now, into: &orders)
        }
    }

    private mutating func moveUsers(
        of server: UInt8, _ upstream: Int, now: Moment, into orders: inout [UpstreamOrder]
    ) {
        guard isActive, stands[upstream].server(now: now.instant, after: 0) != nil else { return }
        var count = 0
        for place in records.indices where Int(records[place].upstream) == upstream && records[place].server == server {
            guard records[place].state == .registered, !records[place].marks.contains(.isVacant) else { continue }
            count += 1
            begin(UInt32(place), now: now, into: &orders)
        }
        guard count > 0 else { return }
        orders.append(.tell(.registersAgain(UpstreamNumber(UInt16(upstream)), users: count, .serverDown)))
    }

    /// Notes that a server answers OPTIONS. If the server was down, all users register again, because the server may
    /// have lost its registrations.
    package mutating func serverCameBack(at endpoint: Endpoint, now: Moment, into orders: inout [UpstreamOrder]) {
        var returned: [Int] = []
        for upstream in stands.indices {
            for place in stands[upstream].servers.indices
            where stands[upstream].servers[place].server.endpoint == endpoint {
                let wasDown = stands[upstream].change(UInt8(place)) { $0.cameBack() }
                if wasDown == true, !returned.contains(upstream) { returned.append(upstream) }
            }
        }
        for upstream in returned {
            registerAll(upstream, .answersAgain, now: now, into: &orders)
            pump(upstream, now: now, into: &orders)
        }
    }

}
