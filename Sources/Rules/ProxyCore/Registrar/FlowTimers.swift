import Addressing
import Timekeeping

/// The pairs of UDP addresses on which phones were told how often to show life (Flow-Timer, RFC 5626 section 4.4), and when
/// they last did. A connection's end is seen elsewhere; here nothing but silence tells of it.
struct FlowTimers: Sendable {
    private struct Entry {
        /// What is registered by the flow: a phone has several users at times.
        var bindings: [DeviceID]
        var heard: Instant
        var isSilent = false
    }

    private var entries: [Flow: Entry] = [:]
    private var deadlines = DeadlineQueue<Flow>()

    var isEmpty: Bool { entries.isEmpty }

    /// When a flow has to be looked at.
    var nextDeadline: Instant? { deadlines.nextDeadline }

    mutating func registered(_ binding: DeviceID, on flow: Flow, span: Duration, now: Instant) {
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

    /// - Returns: what is registered by the flow, if it was silent until now.
    mutating func heard(_ flow: Flow, span: Duration, now: Instant) -> [DeviceID] {
        guard let index = entries.index(forKey: flow) else { return [] }
        entries.values[index].heard = now
        guard entries.values[index].isSilent else { return [] }
        entries.values[index].isSilent = false
        _ = deadlines.schedule(flow, at: now + span)
        return entries.values[index].bindings
    }

    /// - Parameters:
    ///   - span: how long.
    ///   - now: the time.
    ///   - isTheirs: whether the binding is still there, and registered by the flow.
    /// - Returns: what is registered by a flow on which nothing came for so long; to be asked until it returns `nil`.
    mutating func fallenSilent(
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
