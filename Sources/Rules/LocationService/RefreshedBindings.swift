package import Addressing
package import Bytes

/// The bindings whose last refresh (expiry, CSeq, Call-ID and User-Agent) is not in the store yet.
///
/// A restart may lose a refresh without harm, so the daemon writes several refreshes of a binding together. The table
/// stores equal User-Agents only once, because phones with the same app send the same User-Agent. If the table is full,
/// the store keeps the older User-Agent of a binding.
package struct RefreshedBindings {
    /// The index of each binding's User-Agent in ``agents``, or ``unknown`` if the table had no room.
    private var places: [DeviceID: UInt8] = [:]
    private var agents: [ByteString] = []

    static let maximumAgents = 64
    private static let unknown = UInt8.max

    package var isEmpty: Bool { places.isEmpty }

    package mutating func insert(_ device: DeviceID, saying agent: ByteString) { places[device] = place(of: agent) }

    private mutating func place(of agent: ByteString) -> UInt8 {
        if let found = agents.firstIndex(of: agent) { return UInt8(truncatingIfNeeded: found) }
        guard agents.count < Self.maximumAgents else { return Self.unknown }
        // The User-Agent is copied, because a slice would keep the whole message in memory.
        agents.append(agent.compacted())
        return UInt8(truncatingIfNeeded: agents.count - 1)
    }

    /// The User-Agent in the binding's last REGISTER, if the store does not have this User-Agent yet.
    package func agent(of device: DeviceID) -> ByteString? { places[device].flatMap { agent(at: $0) } }

    private func agent(at place: UInt8) -> ByteString? {
        agents.indices.contains(Int(place)) ? agents[Int(place)] : nil
    }

    /// Removes and returns the given bindings whose last refresh is not in the store.
    package mutating func take(_ bindings: [DeviceID]) -> [(device: DeviceID, agent: ByteString?)] {
        let taken = bindings.compactMap { device in
            places.removeValue(forKey: device).map { (device: device, agent: agent(at: $0)) }
        }
        if places.isEmpty { agents = [] }
        return taken
    }

    /// Removes and returns some bindings, each with the User-Agent of its phone.
    package mutating func take(_ limit: Int) -> [(device: DeviceID, agent: ByteString?)] {
        let taken = places.prefix(limit).map { (device: $0.key, agent: agent(at: $0.value)) }
        for entry in taken { places.removeValue(forKey: entry.device) }
        if places.isEmpty { agents = [] }
        return taken
    }
}
