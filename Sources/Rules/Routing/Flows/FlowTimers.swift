package import Addressing
package import Timekeeping

/// The UDP flows whose phones were told how often to show life (Flow-Timer, RFC 5626 section 4.4), and when they last
/// did. TCP reports a closed connection. For UDP, silence is the only sign.
package struct FlowTimers: Sendable {
    private struct Entry {
        /// The bindings that were registered on the flow. A phone may have several users.
        var bindings: [DeviceID]
        var heard: Instant
        var isSilent = false
    }

    private var entries: [Flow: Entry] = [:]
    private var deadlines = DeadlineQueue<Flow>()

    package var isEmpty: Bool { entries.isEmpty }

    /// When the next flow has to be checked.
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

    /// - Returns: the bindings that were registered on the flow, if the flow was silent until now.
    package mutating func heard(_ flow: Flow, span: Duration, now: Instant) -> [DeviceID] {
        guard let index = entries.index(forKey: flow) else { return [] }
        entries.values[index].heard = now
        guard entries.values[index].isSilent else { return [] }
        entries.values[index].isSilent = false
        _ = deadlines.schedule(flow, at: now + span)
        return entries.values[index].bindings
    }

    /// - Parameters:
    ///   - span: how long a flow must be silent.
    ///   - now: the time.
    ///   - isTheirs: whether the binding still exists and was registered on the flow.
    /// - Returns: the bindings of one flow on which nothing came for `span`. Call this method until it returns `nil`.
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
