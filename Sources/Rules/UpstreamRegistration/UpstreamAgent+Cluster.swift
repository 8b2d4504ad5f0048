package import Timekeeping

// Handles the duties of a cluster: only the node with the duties registers the users of all nodes.

extension UpstreamAgent {
    /// How long the registration client keeps its users while it is suspended. A node often loses the duties only for
    /// seconds, because the database does not answer.
    static let memory: Duration = .seconds(60)

    /// Suspends the registration client, because this node does not have the duties any more. The bindings at the PBXs
    /// stay for the next node with the duties, which registers the same contacts.
    package mutating func suspended(now: Moment, into orders: inout [UpstreamOrder]) {
        guard isActive else { return }
        (isActive, suspendedAt) = (false, now.instant)
        for place in records.indices where records[place].pending != .nothing {
            orders.append(.abandon(RegisterNumber(slot: UInt32(place), cseq: records[place].cseq)))
            if records[place].pending != .query { records[place].marks.insert(.again) }
            records[place].pending = .nothing
            scheduleNext(UInt32(place))
        }
    }

    /// Goes on, or begins without users, because this node has got the duties.
    ///
    /// The parameter `ceiling` is the ceiling of CSeq numbers in the store, because another node may have sent REGISTERs.
    package mutating func resumed(above ceiling: UInt32, now: Moment, into orders: inout [UpstreamOrder]) {
        guard !isActive else { return }
        forgetLater(now: now.instant)
        (isActive, suspendedAt) = (true, nil)
        cseqs.rise(above: ceiling)
        for place in records.indices where records[place].marks.contains(.again) {
            records[place].marks.remove(.again)
            begin(UInt32(place), now: now, into: &orders)
        }
        due(now: now, into: &orders)
    }

    /// Forgets the users if the registration client is suspended for too long.
    mutating func forgetLater(now: Instant) {
        guard let suspendedAt, suspendedAt + Self.memory <= now else { return }
        self.suspendedAt = nil
        forgetUsers()
    }

    // MARK: Users at other nodes

    /// Notes that a search has found a contact by which a user can be woken. The search does not know whether the user's
    /// password has changed.
    ///
    /// - Returns: whether the user is known; false for a user whom ``userIsWakeable(_:now:into:)`` must begin to register.
    package mutating func userFound(
        _ user: UpstreamUser, lastSign: UnixTime, now: Moment, into orders: inout [UpstreamOrder]
    ) -> Bool {
        guard let slot = slot(of: user), records[Int(slot)].marks.contains(.isWakeable) else {
            // A user without a sign of life is not registered again and again.
            return isForgotten(lastSign, at: user.upstream.index, now: now)
        }
        let sign = Self.seconds(lastSign)
        records[Int(slot)].marks.insert(.isFound)
        guard records[Int(slot)].lastSign < sign else { return true }
        records[Int(slot)].lastSign = sign
        guard isActive, isWorthAnotherTry(slot, now: now) else { return true }
        begin(slot, now: now, into: &orders)
        pump(user.upstream.index, now: now, into: &orders)
        return true
    }

    /// Ends the binding of a user whose last device is gone. A user whom another node may have registered can be unknown
    /// to this node.
    package mutating func deviceEnded(_ user: WakeableUser, now: Moment, into orders: inout [UpstreamOrder]) {
        let name = UpstreamUser(user.upstream, user.name)
        guard user.isFromEarlierRun, !user.algorithms.isEmpty, slot(of: name) == nil else {
            return userEnded(name, .noDevice, now: now, into: &orders)
        }
        guard isActive, stands.indices.contains(user.upstream.index), let slot = makeRecord(user, now: now) else {
            return
        }
        end(slot, .noDevice, now: now, into: &orders)
        pump(user.upstream.index, now: now, into: &orders)
    }

    /// Begins a pass over the contacts of all users in the store. ``userIsWakeable(_:now:into:)`` notes that the pass has
    /// found a user.
    package mutating func beginPass() {
        for place in records.indices { records[place].marks.remove(.isFound) }
    }

    /// The users whom the pass that ends has not found, at most `limit` users.
    package func unfound(limit: Int) -> [UpstreamUser] {
        var found: [UpstreamUser] = []
        for place in records.indices where found.count < limit {
            let marks = records[place].marks
            guard marks.contains(.isWakeable), marks.isDisjoint(with: [.isVacant, .isFound]) else { continue }
            found.append(user(at: UInt32(place)))
        }
        return found
    }

    /// The next users whom the PBX refuses, at most `limit` users. Their passwords may have changed at another node.
    package mutating func refusedInTurn(limit: Int) -> [UpstreamUser] {
        var found: [UpstreamUser] = []
        for _ in records.indices where found.count < limit {
            refusedCursor = (refusedCursor + 1) % records.count
            let record = records[refusedCursor]
            guard record.state == .refused, !record.marks.contains(.isVacant) else { continue }
            found.append(user(at: UInt32(refusedCursor)))
        }
        return found
    }
}
