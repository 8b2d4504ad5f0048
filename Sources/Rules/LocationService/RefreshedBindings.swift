package import Addressing
package import Bytes

/// Bindings whose rows in the store are older than their last refresh: expiry, CSeq, Call-ID and User-Agent. A
/// restart can lose these values without harm, so they are written late. Each binding is written once, however often
/// it was refreshed.
///
/// Phones of one app send the same User-Agent, so each text is kept once. If a text finds no room, the row of its
/// binding keeps the User-Agent that it had.
package struct RefreshedBindings {
    /// The index of each binding's User-Agent in ``agents``, or ``unknown`` if the text found no room.
    private var places: [DeviceID: UInt8] = [:]
    private var agents: [ByteString] = []

    static let maximumAgents = 64
    private static let unknown = UInt8.max

    package var isEmpty: Bool { places.isEmpty }

    package mutating func insert(_ devices: some Collection<DeviceID>, saying agent: ByteString) {
        let place = place(of: agent)
        for device in devices { places[device] = place }
    }

    private mutating func place(of agent: ByteString) -> UInt8 {
        if let found = agents.firstIndex(of: agent) { return UInt8(truncatingIfNeeded: found) }
        guard agents.count < Self.maximumAgents else { return Self.unknown }
        // The text is copied, because it is a slice of the whole message.
        agents.append(agent.compacted())
        return UInt8(truncatingIfNeeded: agents.count - 1)
    }

    /// The User-Agent in the binding's last REGISTER, if it is not persisted yet.
    package func agent(of device: DeviceID) -> ByteString? { places[device].flatMap { agent(at: $0) } }

    private func agent(at place: UInt8) -> ByteString? {
        agents.indices.contains(Int(place)) ? agents[Int(place)] : nil
    }

    /// Takes some bindings out, each with the User-Agent of its phone.
    package mutating func take(_ limit: Int) -> [(device: DeviceID, agent: ByteString?)] {
        let taken = places.prefix(limit).map { (device: $0.key, agent: agent(at: $0.value)) }
        for entry in taken { places.removeValue(forKey: entry.device) }
        if places.isEmpty { agents = [] }
        return taken
    }
}
