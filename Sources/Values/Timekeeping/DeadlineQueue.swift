/// The id of one scheduled deadline in its queue.
@usableFromInline
package struct DeadlineID: Hashable, Sendable {
    @usableFromInline let index: Int32
    @usableFromInline let generation: UInt32

    @inlinable
    init(index: Int32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }

    /// The id for no deadline; cancelling it has no effect.
    package static let none = DeadlineID(index: -1, generation: 0)
}

/// A queue of deadlines, each with a value of the owner, called its payload. Scheduling and cancelling take constant
/// time. The queue is optimised for timers that are usually cancelled before they fire.
///
/// The queue is a hierarchical timer wheel (Varghese and Lauck) with seven levels of 64 slots. A slot covers as much
/// time as all slots of the next lower level. A deadline is rounded up to the next tick of 10 ms, so that it never
/// fires early. All deadlines in one level are earlier than the deadlines in higher levels. Bit sets mark the used
/// slots, so that advancing by hours is as fast as by one tick. Deadlines of the same tick are returned in the order of
/// their scheduling.
///
/// A deadline at `Instant.distantFuture` never fires. Each deadline needs 24 bytes besides its payload. The owner of
/// the queue limits the number of deadlines.
@usableFromInline
package struct DeadlineQueue<Payload> {
    @usableFromInline
    struct Node {
        @usableFromInline var tick: UInt64
        /// The payload of the deadline; `nil` in a free node.
        @usableFromInline var payload: Payload?
        @usableFromInline var slot: UInt16
        /// The index of the next node in the same slot, or of the next free node.
        @usableFromInline var next: Int32
        @usableFromInline var previous: Int32
        @usableFromInline var generation: UInt32

        @inlinable
        init(payload: Payload) {
            tick = 0
            self.payload = payload
            slot = 0
            next = -1
            previous = -1
            generation = 1
        }

        /// Puts a node behind the last node of a slot.
        @inlinable
        mutating func stand(in slot: UInt16, behind tail: Int32) {
            self.slot = slot
            previous = tail
            next = -1
        }
    }

    @usableFromInline
    struct Slot {
        @usableFromInline var head: Int32 = -1
        @usableFromInline var tail: Int32 = -1
        /// A tick (10 ms) that is not later than any deadline in the slot.
        @usableFromInline var earliest: UInt64 = .max

        @inlinable init() {}

        /// Appends a node to the list of its slot.
        ///
        /// - Returns: the node that was the slot's last node before; -1 if the slot was empty.
        @inlinable
        mutating func append(_ index: Int32, tick: UInt64) -> Int32 {
            let before = tail
            tail = index
            earliest = min(earliest, tick)
            if before < 0 { head = index }
            return before
        }
    }

    @usableFromInline var nodes: [Node] = []
    @usableFromInline var firstFree: Int32 = -1
    /// The slots of the wheel, lowest level first.
    @usableFromInline var slots = [Slot](repeating: Slot(), count: wheelLevels * 64)
    /// For each level, a bit for each slot in use.
    @usableFromInline var occupied = [UInt64](repeating: 0, count: wheelLevels)
    /// A tick that is not later than the first deadline; the largest `UInt64` for an empty wheel. The value is stored,
    /// because it is read after every event.
    @usableFromInline var soonest = UInt64.max
    /// The tick up to which the wheel has advanced. A deadline's level is the highest base-64 digit in which its tick
    /// differs from `elapsed`.
    @usableFromInline var elapsed: UInt64 = 0

    /// The number of scheduled deadlines.
    @usableFromInline package private(set) var count = 0

    package init() {}

    @inlinable
    package mutating func schedule(_ payload: Payload, at deadline: Instant) -> DeadlineID {
        let index: Int32
        if firstFree >= 0 {
            index = firstFree
            firstFree = nodes[Int(index)].next
            nodes[Int(index)].payload = payload
        } else {
            precondition(nodes.count < Int(Int32.max), "the owner limits its deadlines")
            index = Int32(truncatingIfNeeded: nodes.count)
            nodes.append(Node(payload: payload))
        }
        nodes[Int(index)].tick = max(wheelTick(roundedUp: deadline), elapsed)
        link(index)
        count += 1
        return DeadlineID(index: index, generation: nodes[Int(index)].generation)
    }

    /// Cancels a deadline, unless it was already popped or cancelled.
    @inlinable
    package mutating func cancel(_ id: DeadlineID) {
        let index = Int(id.index)
        guard nodes.indices.contains(index), nodes[index].generation == id.generation, nodes[index].payload != nil
        else { return }
        unlink(id.index)
        _ = release(id.index)
    }

    /// The time at which the owner must check the queue again, never later than the earliest deadline. After a deadline
    /// was cancelled, the owner may check the queue earlier than needed.
    @inlinable
    package var nextDeadline: Instant? { soonest < .max ? wheelInstant(atTick: soonest) : nil }

    /// Removes the earliest deadline if it has passed, and returns its payload.
    ///
    /// - Precondition: `now` is not earlier than in the last call.
    @inlinable
    package mutating func popExpired(now: Instant) -> Payload? {
        let target = wheelTick(roundedDown: now)
        while let place = firstPlace, place.start <= target {
            elapsed = max(elapsed, place.start)
            let slot = place.level * 64 + place.index
            let head = slots[slot].head
            guard place.level > 0 else {
                unlink(head)
                return release(head)
            }
            slots[slot] = Slot()
            occupied[place.level] &= ~(1 << UInt64(place.index))
            // The first used slot has the earliest deadlines of its level, so its deadlines move to lower levels.
            soonest = .max
            var index = head
            while index >= 0 {
                let next = nodes[Int(index)].next
                link(index)
                index = next
            }
        }
        elapsed = max(elapsed, target)
        return nil
    }

    // MARK: The wheel

    /// The first used slot of the wheel, and its first tick.
    @inlinable
    var firstPlace: (level: Int, index: Int, start: UInt64)? {
        for level in 0..<wheelLevels where occupied[level] != 0 {
            let index = occupied[level].trailingZeroBitCount
            let shift = UInt64(level * 6)
            return (level, index, (elapsed >> (shift + 6)) << (shift + 6) | UInt64(index) << shift)
        }
        return nil
    }

    /// Appends a deadline's node to the slot of its tick.
    @inlinable
    mutating func link(_ index: Int32) {
        let tick = nodes[Int(index)].tick
        let level = (63 - ((elapsed ^ tick) | 63).leadingZeroBitCount) / 6
        let place = Int(truncatingIfNeeded: (tick >> UInt64(level * 6)) & 63)
        let slot = level * 64 + place
        let tail = slots[slot].append(index, tick: tick)
        nodes[Int(index)].stand(in: UInt16(truncatingIfNeeded: slot), behind: tail)
        soonest = min(soonest, tick)
        if tail >= 0 { nodes[Int(tail)].next = index } else { occupied[level] |= 1 << UInt64(place) }
    }

    @inlinable
    mutating func unlink(_ index: Int32) {
        let slot = Int(nodes[Int(index)].slot)
        let next = nodes[Int(index)].next
        let previous = nodes[Int(index)].previous
        if previous >= 0 { nodes[Int(previous)].next = next } else { slots[slot].head = next }
        if next >= 0 { nodes[Int(next)].previous = previous } else { slots[slot].tail = previous }
        guard slots[slot].head < 0 else { return }
        let wasFirst = slots[slot].earliest == soonest
        slots[slot].earliest = .max
        occupied[slot / 64] &= ~(1 << UInt64(slot % 64))
        guard wasFirst else { return }
        soonest = firstPlace.map { slots[$0.level * 64 + $0.index].earliest } ?? .max
    }

    /// Releases a node that is in no slot, and returns its payload.
    @inlinable
    mutating func release(_ index: Int32) -> Payload? {
        let payload = nodes[Int(index)].payload.take()
        nodes[Int(index)].generation &+= 1
        nodes[Int(index)].next = firstFree
        firstFree = index
        count -= 1
        return payload
    }
}

extension DeadlineQueue: Sendable where Payload: Sendable {}
extension DeadlineQueue.Node: Sendable where Payload: Sendable {}
extension DeadlineQueue.Slot: Sendable {}

// MARK: Ticks

/// The number of levels, which cover every `Instant`: see ``wheelOrigin``.
@usableFromInline let wheelLevels = 7

/// The length of a tick in nanoseconds.
@usableFromInline let wheelTickLength: Int64 = 10_000_000

/// The tick number of `Instant` zero, so that the ticks of all instants are positive and below 2^41.
@usableFromInline let wheelOrigin: Int64 = 1 << 40

@inlinable
func wheelTick(roundedUp instant: Instant) -> UInt64 {
    let (quotient, remainder) = instant.nanoseconds.quotientAndRemainder(dividingBy: wheelTickLength)
    return UInt64(quotient + (remainder > 0 ? 1 : 0) + wheelOrigin)
}

@inlinable
func wheelTick(roundedDown instant: Instant) -> UInt64 {
    let (quotient, remainder) = instant.nanoseconds.quotientAndRemainder(dividingBy: wheelTickLength)
    return UInt64(quotient - (remainder < 0 ? 1 : 0) + wheelOrigin)
}

@inlinable
func wheelInstant(atTick tick: UInt64) -> Instant {
    let (nanoseconds, overflow) = (Int64(tick) - wheelOrigin).multipliedReportingOverflow(by: wheelTickLength)
    return overflow ? .distantFuture : Instant(nanoseconds: nanoseconds)
}
