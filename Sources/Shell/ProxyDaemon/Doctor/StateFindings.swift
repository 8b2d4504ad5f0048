import FoundationEssentials
package import Persistence
import Reactor

/// The state that a running daemon reports by `GET /readyz`.
package enum DaemonState: Hashable, Sendable {
    case ready
    /// The daemon serves phones, but a part of its work fails for the given reason.
    case degraded(String)
    /// The daemon refuses changes or does not answer, for the given reason.
    case notReady(String)
}

/// The facts about the store's file, as far as this process can see it.
package struct StoreFact: Hashable, Sendable {
    package let path: String
    package let isThere: Bool
    /// Whether a lock file shows that the store existed earlier.
    package let hasLock: Bool
    /// Whether this process may look into the store's folder.
    package let isVisible: Bool

    package init(path: String, isThere: Bool, hasLock: Bool, isVisible: Bool = true) {
        (self.path, self.isThere, self.hasLock, self.isVisible) = (path, isThere, hasLock, isVisible)
    }

    init(at path: String) {
        let files = FileManager.default
        self.init(
            path: path, isThere: files.fileExists(atPath: path), hasLock: files.fileExists(atPath: path + ".lock"),
            isVisible: FileAccess.answer(to: .enter, of: .own, at: DaemonSettings.folder(of: path)) == .allowed)
    }
}

/// Findings about the running daemon and its store.
package enum StateFindings {
    package static func daemon(at control: String, isThere: Bool, _ state: DaemonState?) -> Finding {
        guard isThere else {
            return Finding("daemon", .note, "no daemon answers on \(control)", cure: "systemctl start sippushd")
        }
        return switch state {
        case nil, .ready: Finding("daemon", .ok, "it answers on \(control)")
        case .degraded(let reason):
            Finding(
                "daemon", .note, "a part of its work fails: \(reason)",
                cure: "Other lines of this report, or sippushd provider list, have the cause.")
        case .notReady(let reason):
            Finding(
                "daemon", .wrong, "it is not ready: \(reason)",
                cure: "Other lines of this report have the cause. The log says since when: journalctl -u sippushd.")
        }
    }

    /// The finding about a store in PostgreSQL.
    package static func database(_ name: String, _ found: PostgreSQLExamination) -> Finding {
        switch found {
        case .fine: Finding("store", .ok, "\(name) answers, and keeps what it confirms")
        case .unsafe(let reason, let cure):
            Finding(
                "store", .note, "\(name): \(reason)",
                cure: "As the database's administrator, \(cure): docs/PostgreSQL.md.")
        case .mixed(let nodes):
            Finding(
                "store", .note, "\(name): the nodes have different versions: \(nodes)",
                cure: "Upgrade the older nodes: docs/Cluster.md, Upgrade.")
        case .away(let reason):
            Finding(
                "store", .wrong, "\(name): \(reason)",
                cure: "Start the database, or correct postgresql in the settings: docs/PostgreSQL.md.")
        }
    }

    package static func store(_ fact: StoreFact, hasDaemon: Bool) -> [Finding] {
        guard fact.isVisible else { return [] }
        guard !fact.isThere else { return [Finding("store", .ok, "\(fact.path) is there")] }
        guard fact.hasLock || hasDaemon else { return [] }
        return [
            Finding(
                "store", .wrong,
                "\(fact.path) is not there, but it was"
                    + (hasDaemon ? ", and the running daemon stores no change" : ", and the daemon does not start"),
                cure:
                    "Mount its disk, correct store in the settings, or restore a backup: docs/Operations.md, Restore. To begin with an empty store, stop the daemon and remove \(fact.path).lock."
            )
        ]
    }
}
