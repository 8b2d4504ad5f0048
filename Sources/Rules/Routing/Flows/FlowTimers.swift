package import Addressing
package import Timekeeping

/// The UDP flows on which phones must send keep-alives (Flow-Timer, RFC 5626 section 4.4), and the time of the last
/// message on each flow.
///
/// Only missing keep-alives show that a phone on UDP is gone; the system reports closed TCP connections.
package struct FlowTimers: Sendable {
    private struct Entry {
        /// The bindings of the flow; a phone that has registered several users has several bindings.
        var bindings: [DeviceID]
        var heard: Instant
        var isSilent = false
    }

    private var entries: [Flow: Entry] = [:]
    private var deadlines = DeadlineQueue<Flow>()

    package var isEmpty: Bool { entries.isEmpty }

    /// The time at which the next flow must be checked for a missing keep-alive.
    package var nextDeadline: Instant? { deadlines.nextDeadline }

    package mutating func registered(_ binding: DeviceID, on flow: Flow, span: Duration, now: Instant) {
        guard var entry = entries[flow] else {
            entries[flow] = Entry(bindings: [binding], heard: now)
            _ = deadlines.schedule(flow, at: now + span)
            return
        }
        if !entry.bindings.contains(binding) { entry.bindings.append(binding) }
        entry.heard = now
        if entry.isSilent { _ = deadlines.schedule(flow, at: now + span) }
        entry.isSilent = false
        entries[flow] = entry
    }

    /// Notes a message on a flow, and returns the flow's bindings if the flow was treated as silent before.
    package mutating func heard(_ flow: Flow, span: Duration, now: Instant) -> [DeviceID] {
        guard let index = entries.index(forKey: flow) else { return [] }
        entries.values[index].heard = now
        guard entries.values[index].isSilent else { return [] }
        entries.values[index].isSilent = false
        _ = deadlines.schedule(flow, at: now + span)
        return entries.values[index].bindings
    }

    /// Returns a flow without a message for `span`, and its bindings; `nil` if no flow was silent for so long.
    ///
    /// The engine calls ``fallenSilent`` until the result is `nil`. The closure `isTheirs` says whether a binding still
    /// exists and is registered on the flow.
    package mutating func fallenSilent(
        span: Duration, now: Instant, isTheirs: (DeviceID, Flow) -> Bool
    ) -> (flow: Flow, bindings: [DeviceID])? {
        while let flow = deadlines.popExpired(now: now) {
            guard var entry = entries[flow] else { continue }
            entry.bindings.removeAll { !isTheirs($0, flow) }
            if entry.bindings.isEmpty {
                entries[flow] = nil
                continue
            }
            guard entry.heard + span <= now else {
                _ = deadlines.schedule(flow, at: entry.heard + span)
                entries[flow] = entry
                continue
            }
            entry.isSilent = true
            entries[flow] = entry
            return (flow, entry.bindings)
        }
        return nil
    }
}
