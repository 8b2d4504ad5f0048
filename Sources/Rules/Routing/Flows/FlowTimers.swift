package import Addressing
package import Timekeeping

/// The UDP flows whose phones must send keep-alives (Flow-Timer, RFC 5626 section 4.4), with the time of the last
/// message on each flow.
///
/// The system reports a closed TCP connection; if a phone on UDP is gone, only the missing keep-alives show it.
package struct FlowTimers: Sendable {
    private struct Entry {
        /// The bindings of the flow: several if the phone has registered several users on the flow.
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

    /// Notes a message on a flow, and returns the flow's bindings if the flow counted as silent until now.
    package mutating func heard(_ flow: Flow, span: Duration, now: Instant) -> [DeviceID] {
        guard let index = entries.index(forKey: flow) else { return [] }
        entries.values[index].heard = now
        guard entries.values[index].isSilent else { return [] }
        entries.values[index].isSilent = false
        _ = deadlines.schedule(flow, at: now + span)
        return entries.values[index].bindings
    }

    /// Returns a flow on which no message came for `span`, with its bindings; `nil` if no flow was silent for so long.
    ///
    /// The engine calls ``fallenSilent`` repeatedly until the result is `nil`. The closure `isTheirs` says whether a
    /// binding still exists and is registered on the flow.
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
