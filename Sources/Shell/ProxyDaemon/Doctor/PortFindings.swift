package import Reactor

/// The facts about a port of the settings.
package struct PortFact: Hashable, Sendable {
    /// As the settings have it, with the transport.
    package let name: String
    /// Why it cannot be bound; `nil` if it is free.
    package let obstacle: SystemError?
    /// Who has it; `nil` if that is unknown.
    package let owner: PortOwner?

    package init(name: String, obstacle: SystemError?, owner: PortOwner? = nil) {
        self.name = name
        self.obstacle = obstacle
        self.owner = owner
    }
}

/// Whether the ports of the settings are free, or the daemon's own.
package enum PortFindings {
    private static let area = "ports"

    /// `daemon` is the process of the running daemon, if one runs.
    package static func findings(_ facts: [PortFact], daemon: Int32?) -> [Finding] {
        let found = facts.compactMap { finding($0, daemon) }
        guard found.isEmpty else { return found }
        let state = daemon == nil ? "free" : "the daemon's"
        return [Finding(area, .ok, "\(facts.map(\.name).joined(separator: " ")): \(state)")]
    }

    private static func finding(_ fact: PortFact, _ daemon: Int32?) -> Finding? {
        guard let obstacle = fact.obstacle else {
            guard daemon != nil else { return nil }
            return Finding(
                area, .wrong, "\(fact.name): the running daemon does not listen there",
                cure: "Restart it: it was started with other settings.")
        }
        if obstacle.isAddressInUse {
            // systemd keeps sockets for the daemon.
            if let owner = fact.owner, owner.process == daemon || owner.process == 1 { return nil }
            if fact.owner == nil, daemon != nil { return nil }
            let who = fact.owner.map { "\($0.name) (process \($0.process))" } ?? "another program"
            return Finding(
                area, .wrong, "\(fact.name): \(who) listens there", cure: "End that program, or change the address.")
        }
        if obstacle.isAddressUnknown {
            return Finding(
                area, .wrong, "\(fact.name): this machine has no such address",
                cure: "Correct the address, or write 0.0.0.0 or [::].")
        }
        return Finding(
            area, .wrong, "\(fact.name): \(obstacle.reason)",
            cure: obstacle.isPermissionDenied
                ? "Ports below 1024 need AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit." : "Correct the address."
        )
    }
}
