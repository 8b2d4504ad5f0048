package import Reactor

/// The facts about one port in the settings.
package struct PortFact: Hashable, Sendable {
    /// The transport and address of the port, written as in the settings.
    package let name: String
    /// The reason why the address cannot be bound; `nil` if the port is free.
    package let obstacle: SystemError?
    /// The process that uses the port; `nil` if the process is unknown.
    package let owner: PortOwner?

    package init(name: String, obstacle: SystemError?, owner: PortOwner? = nil) {
        self.name = name
        self.obstacle = obstacle
        self.owner = owner
    }
}

/// Findings about the ports in the settings: whether they are free, or used by the daemon itself.
package enum PortFindings {
    private static let area = "ports"

    /// Returns a finding for each faulty port in the settings; if no port is faulty, one finding. The parameter
    /// `daemon` is the process number of the running daemon; `nil` if no daemon runs.
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
                area, .wrong, "\(fact.name): the running daemon does not listen at this address",
                cure: "Restart the daemon, which was started with other settings.")
        }
        if obstacle.isAddressInUse {
            // Process 1 is systemd, which keeps sockets for the daemon.
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
