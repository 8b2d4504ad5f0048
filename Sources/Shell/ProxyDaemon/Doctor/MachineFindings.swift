package import Reactor

/// The facts about the machine that the doctor examines: disks, network buffers and file descriptors.
package struct MachineFacts: Sendable {
    /// The folders to which the daemon writes during calls, and the measured speed and room of their disks.
    package var disks: [(folder: String, probe: Result<DiskProbe, SystemError>)] = []
    /// The kernel's limit for a socket's receive buffer (`net.core.rmem_max`); `nil` if the value cannot be read.
    package var receiveMemory: Int?
    package var hasUDP = false
    /// The limit of open file descriptors, and the place where the limit is set.
    package var descriptors: (count: Int, source: String)?
    package var wantedConnections = 0
    /// The number of connections that the daemon can serve with its limit of file descriptors.
    package var servedConnections = 0

    package init() {}
}

/// Finds out whether the machine has the resources that the daemon needs.
package enum MachineFindings {
    /// The number of synced writes per second that a disk should reach, because registrations and some calls wait for
    /// synced writes.
    private static let fewSyncs = 100
    private static let littleRoom: UInt64 = 1 << 30
    private static let noRoom: UInt64 = 64 << 20
    /// The size in bytes of a receive buffer that holds the datagrams to a busy UDP listener for one second.
    private static let usualReceiveMemory = 4 << 20

    package static func findings(_ facts: MachineFacts) -> [Finding] {
        facts.disks.flatMap { disk($0.folder, $0.probe) } + network(facts) + descriptors(facts)
    }

    private static func disk(_ folder: String, _ probe: Result<DiskProbe, SystemError>) -> [Finding] {
        switch probe {
        case .failure(let error) where error.isPermissionDenied:
            [
                Finding(
                    "disk", .note, "\(folder): speed and room were not measured: \(error.reason)",
                    cure: "Run doctor as root, or as the daemon's user.")
            ]
        case .failure(let error):
            [
                Finding(
                    "disk", .wrong, "\(folder) cannot be written: \(error.reason)",
                    cure: error.isDiskFull
                        ? "Free some room: df -h \(folder)" : "Look at the system's log for errors of the disk.")
            ]
        case .success(let probe): [speed(folder, probe), room(folder, probe)]
        }
    }

    private static func speed(_ folder: String, _ probe: DiskProbe) -> Finding {
        let words = "\(folder): \(probe.syncsPerSecond) small writes a second reach the disk"
        guard probe.syncsPerSecond < fewSyncs else { return Finding("disk", .ok, words) }
        return Finding(
            "disk", .note, words,
            cure:
                "Registrations wait for the disk. Use a faster disk, or set calls to a folder in memory: docs/Operations.md."
        )
    }

    private static func room(_ folder: String, _ probe: DiskProbe) -> Finding {
        let words = "\(folder): \(probe.freeBytes >> 20) MiB are free"
        if probe.totalFiles > 0, probe.freeFiles == 0 {
            return Finding("disk", .wrong, "\(folder): no file can be created", cure: "Remove files: df -i \(folder)")
        }
        if probe.freeBytes < noRoom {
            return Finding(
                "disk", .wrong, words, cure: "Free some room: df -h \(folder). A full disk refuses REGISTERs.")
        }
        guard probe.freeBytes < littleRoom else { return Finding("disk", .ok, words) }
        return Finding("disk", .note, words, cure: "The store grows with contacts and records: docs/Operations.md.")
    }

    private static func network(_ facts: MachineFacts) -> [Finding] {
        guard facts.hasUDP, let memory = facts.receiveMemory else { return [] }
        let words = "net.core.rmem_max is \(memory)"
        guard memory < usualReceiveMemory else { return [Finding("kernel", .ok, words)] }
        return [
            Finding(
                "kernel", .note, "\(words): bursts of UDP can be lost before the daemon reads them",
                cure: "sysctl -w net.core.rmem_max=8388608, and the same in /etc/sysctl.d")
        ]
    }

    private static func descriptors(_ facts: MachineFacts) -> [Finding] {
        guard let (count, source) = facts.descriptors else { return [] }
        let words = "\(source) allows \(count) descriptors"
        guard facts.servedConnections < facts.wantedConnections else {
            return [Finding("descriptors", .ok, "\(words), enough for limits.connections")]
        }
        return [
            Finding(
                "descriptors", .note,
                "\(words): \(facts.servedConnections) of \(facts.wantedConnections) connections can be served",
                cure: "Raise LimitNOFILE= of the unit, or lower limits.connections.")
        ]
    }
}
