import FoundationEssentials
package import Reactor

/// The systemd unit of the daemon, and the user as whom systemd runs it.
package struct ServiceFacts: Sendable {
    package let name: String
    /// The systemd unit of the daemon; `nil` if this machine does not have the unit.
    package let unit: ServiceUnit?
    /// The user whose access to the files is examined.
    package let identity: FileIdentity
    /// Findings about the service's user, for example that the user does not exist.
    package let findings: [Finding]

    private static let folders = [
        "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
        "/lib/systemd/system",
    ]
    private static let unitLimit = 1 << 20
    /// The first user number that systemd gives to units with DynamicUser=.
    private static let dynamicUser: UInt32 = 61_184

    /// - Parameters:
    ///   - file: a unit file that replaces the system's unit file.
    ///   - user: the name of a user who replaces the unit's user.
    package init(unitFile file: String? = nil, user: String? = nil) {
        name = file.map { String($0.split(separator: "/").last ?? "") } ?? "sippushd.service"
        let texts = Self.texts(name, file)
        let unit = texts.isEmpty ? nil : ServiceUnit(texts)
        self.unit = unit
        let wanted = user ?? unit?.user
        var findings: [Finding] = []
        if let file, texts.isEmpty {
            findings.append(Finding("service", .wrong, "the unit \(file) cannot be read", cure: "Correct --unit."))
        }
        if let wanted {
            if let found = FileIdentity.named(wanted, group: unit?.group, more: unit?.groups ?? []) {
                identity = found
            } else if unit?.isDynamic == true {
                identity = Self.dynamic(wanted)
            } else {
                identity = .own
                findings.append(
                    Finding(
                        "service", .wrong,
                        "the service shall run as the user \(wanted), who does not exist on this machine",
                        cure: "Create the user: systemd-sysusers, or useradd --system \(wanted)"))
            }
        } else if let unit, unit.isDynamic {
            identity = FileIdentity.named(Self.base(name)) ?? Self.dynamic(Self.base(name))
        } else {
            identity = .own
            if unit == nil, identity.user == 0 {
                findings.append(
                    Finding(
                        "service", .note, "there is no unit sippushd.service, so doctor examines the files as root",
                        cure: "Name the daemon's user: doctor --user NAME"))
            }
        }
        self.findings = findings
    }

    private static func dynamic(_ name: String) -> FileIdentity {
        FileIdentity(name: name, user: dynamicUser, group: dynamicUser)
    }

    private static func base(_ unit: String) -> String {
        unit.hasSuffix(".service") ? String(unit.dropLast(8)) : unit
    }

    /// Returns the texts of the unit's file and of its drop-ins.
    private static func texts(_ name: String, _ file: String?) -> [String] {
        let places = file.map { [$0] } ?? folders.map { "\($0)/\(name)" }
        guard let main = places.lazy.compactMap(text).first else { return [] }
        var dropIns: [String: String] = [:]
        for place in places.reversed() {
            let folder = place + ".d"
            for entry in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            where entry.hasSuffix(".conf") {
                dropIns[entry] = "\(folder)/\(entry)"
            }
        }
        return [main] + dropIns.sorted { $0.key < $1.key }.compactMap { text($0.value) }
    }

    private static func text(_ path: String) -> String? {
        guard let data = FileManager.default.contents(atPath: path), data.count <= unitLimit else { return nil }
        return String(decoding: data, as: UTF8.self)
    }

    // MARK: Files

    /// Returns findings about the service's user, and about the user's access to the files in the settings.
    package func fileFindings(of settings: DaemonSettings, at path: String) -> [Finding] {
        findings
            + FileRights.findings(
                settings.namedFiles(settingsAt: Self.absolute(path)).map(fact), for: identity,
                isDynamic: unit?.isDynamic == true)
    }

    private static func absolute(_ path: String) -> String {
        path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
    }

    private func fact(_ file: NamedFile) -> FileFact {
        let folder = ServiceUnit.credentialsFolder(of: name) + "/"
        if let unit, file.path.hasPrefix(folder) {
            return credential(file, String(file.path.dropFirst(folder.count)), unit)
        }
        let real = FileStatus.real(file.path)
        let obstacle = unit?.obstacle(to: real ?? file.path, isWritten: file.wish != .read)
        guard let real else {
            // If this process cannot see the real path, the doctor examines the path in the settings.
            let steps = Self.steps(to: file.path)
            let isHidden = !FileManager.default.fileExists(atPath: file.path) && steps.last?.path != file.path
            return FileFact(
                file: file, steps: steps, isThere: !isHidden || isClosed(steps),
                answer: FileAccess.answer(to: file.wish, of: identity, at: file.path), unitObstacle: obstacle)
        }
        return FileFact(
            file: NamedFile(key: file.key, path: real, wish: file.wish), steps: Self.steps(to: real),
            answer: FileAccess.answer(to: file.wish, of: identity, at: real), unitObstacle: obstacle)
    }

    /// Whether this process may not look into the last folder that it found on the path.
    private func isClosed(_ steps: [FileStatus]) -> Bool {
        guard let last = steps.last else { return false }
        return FileAccess.answer(to: .enter, of: .own, at: last.path) != .allowed
    }

    /// The facts about the file of a credential, which systemd reads as root and copies for the service.
    private func credential(_ file: NamedFile, _ name: String, _ unit: ServiceUnit) -> FileFact {
        let source = unit.credentials[name]
        let isThere = source.map { FileManager.default.fileExists(atPath: $0) } ?? false
        let obstacle =
            source == nil
            ? "LoadCredential= of the unit does not name \(name)"
            : isThere ? nil : "LoadCredential= of the unit names \(source ?? ""), which does not exist"
        return FileFact(file: file, steps: [], answer: .allowed, unitObstacle: obstacle)
    }

    /// Returns the status of each folder from the root to the path, and of the path itself.
    private static func steps(to path: String) -> [FileStatus] {
        var steps: [FileStatus] = []
        var place = ""
        for part in [""] + path.split(separator: "/").map(String.init) {
            place = part.isEmpty ? "/" : place == "/" ? "/\(part)" : "\(place)/\(part)"
            guard let status = FileStatus(of: place) else { break }
            steps.append(status)
        }
        return steps
    }
}
