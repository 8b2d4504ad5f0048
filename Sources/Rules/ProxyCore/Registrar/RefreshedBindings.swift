import Addressing
import Bytes

/// Bindings whose rows in the store are behind: expiry, CSeq, Call-ID and User-Agent of a refresh. A restart could lose them
/// without harm, so they are written late, each binding once however often it was refreshed meanwhile.
///
/// Phones of one app say the same User-Agent, so each is here once. There is room for some: whose does not fit keeps in the
/// store what it said before.
struct RefreshedBindings {
    /// The place of the User-Agent in ``agents``, for each binding; ``unknown`` for one that found no room.
    private var places: [DeviceID: UInt8] = [:]
    private var agents: [ByteString] = []

    static let maximumAgents = 64
    private static let unknown = UInt8.max

    var isEmpty: Bool { places.isEmpty }

    mutating func insert(_ devices: some Collection<DeviceID>, saying agent: ByteString) {
        let place = place(of: agent)
        for device in devices { places[device] = place }
    }

    private mutating func place(of agent: ByteString) -> UInt8 {
        if let found = agents.firstIndex(of: agent) { return UInt8(truncatingIfNeeded: found) }
        guard agents.count < Self.maximumAgents else { return Self.unknown }
        // The text is a slice of the whole message.
        agents.append(agent.compacted())
        return UInt8(truncatingIfNeeded: agents.count - 1)
    }

    /// What the binding's last REGISTER said, if that is not written yet.
    func agent(of device: DeviceID) -> ByteString? { places[device].flatMap { agent(at: $0) } }

    private func agent(at place: UInt8) -> ByteString? {
        agents.indices.contains(Int(place)) ? agents[Int(place)] : nil
    }

    /// Takes some of them out, with what their phones said.
    mutating func take(_ limit: Int) -> [(device: DeviceID, agent: ByteString?)] {
        let taken = places.prefix(limit).map { (device: $0.key, agent: agent(at: $0.value)) }
        for entry in taken { places.removeValue(forKey: entry.device) }
        if places.isEmpty { agents = [] }
        return taken
    }
}
