package import Reactor

/// The facts about one file or folder that the settings name.
package struct FileFact: Hashable, Sendable {
    package let file: NamedFile
    /// The folders from the root to the file, and the file itself, with links resolved. The list of folders ends before
    /// the first missing folder or file.
    package let steps: [FileStatus]
    /// Whether the file exists, as far as the process of `sippushd doctor` can see.
    package let isThere: Bool
    /// Whether the kernel lets the service's user use the file.
    package let answer: FileAccess.Answer
    /// Why the systemd unit hides the path or makes it read-only; `nil` if the unit does neither.
    package let unitObstacle: String?

    package init(
        file: NamedFile, steps: [FileStatus], isThere: Bool = true, answer: FileAccess.Answer,
        unitObstacle: String? = nil
    ) {
        self.file = file
        self.steps = steps
        self.isThere = isThere
        self.answer = answer
        self.unitObstacle = unitObstacle
    }
}

/// Finds out whether the service can use the files that the settings name.
package enum FileRights {
    package static let area = "files"

    /// - Parameters:
    ///   - facts: the owner, group and rights of each file.
    ///   - identity: the user of the service.
    ///   - isDynamic: whether systemd creates the user at each start, so that no file can belong to the user.
    /// - Returns: the findings.
    package static func findings(
        _ facts: [FileFact], for identity: FileIdentity, isDynamic: Bool = false
    ) -> [Finding] {
        let found = facts.compactMap { finding($0, identity, isDynamic) }
        guard found.isEmpty else { return found }
        return [
            Finding(area, .ok, "user \(identity.name) can use all \(facts.count) files and folders of the settings")
        ]
    }

    private static func finding(_ fact: FileFact, _ identity: FileIdentity, _ isDynamic: Bool) -> Finding? {
        let file = fact.file
        if let obstacle = fact.unitObstacle {
            return Finding(
                area, .wrong, "\(file.key): \(file.path): \(obstacle)",
                cure: file.wish == .read
                    ? "Move the file to /etc/sippushd, and change \(file.key)."
                    : "Use a folder below /var/lib/sippushd or /run/sippushd, or add ReadWritePaths= to the unit: systemctl edit sippushd"
            )
        }
        guard fact.isThere else { return missing(fact) }
        let wrong = fact.steps.first { status in
            !allows(status, status.path == file.path ? file.wish : .enter, identity)
        }
        switch fact.answer {
        case .allowed: return nil
        case .unknown where wrong == nil: return nil
        case .refused(let error) where wrong == nil:
            return Finding(
                area, .wrong, "\(file.key): \(identity.name) cannot \(verb(file.wish)) \(file.path): \(error.reason)",
                cure:
                    "The rights of owner and group allow this: look for AppArmor or SELinux, and for a read-only mount."
            )
        case .unknown, .refused:
            let place = wrong?.path ?? file.path
            return Finding(
                area, .wrong,
                "\(file.key): \(identity.name) cannot \(verb(file.wish)) \(file.path)"
                    + (place == file.path ? "" : ", because it may not enter \(place)")
                    + " (\(wrong.map(owner) ?? "unknown rights"))",
                cure: isDynamic
                    ? dynamicCure(file) : cure(place, place == file.path ? file.wish : .enter, identity))
        }
    }

    private static func missing(_ fact: FileFact) -> Finding? {
        let file = fact.file
        if file.wish == .read {
            return Finding(
                area, .wrong, "\(file.key): \(file.path) does not exist",
                cure: "Create it, or correct \(file.key) in the settings.")
        }
        // systemd creates `/run/sippushd` and `/var/lib/sippushd` when it starts the service.
        if ["/run/sippushd", "/var/lib/sippushd"].contains(where: { file.path == $0 || file.path.hasPrefix($0 + "/") })
        {
            return Finding(area, .note, "\(file.key): \(file.path) does not exist yet; the unit creates it")
        }
        return Finding(
            area, .wrong, "\(file.key): the folder \(file.path) does not exist",
            cure: "install -d -m 700 -o sippushd -g sippushd \(file.path)")
    }

    private static func verb(_ wish: FileWish) -> String {
        switch wish {
        case .read: "read"
        case .write, .fill: "write to"
        case .enter: "enter"
        }
    }

    private static func owner(_ status: FileStatus) -> String {
        let user = FileIdentity.userName(status.user) ?? "\(status.user)"
        let group = FileIdentity.groupName(status.group) ?? "\(status.group)"
        return "\(status.path) is \(user):\(group) \(octal(status.mode))"
    }

    private static func octal(_ mode: UInt32) -> String {
        let text = String(mode, radix: 8)
        return String(repeating: "0", count: max(0, 4 - text.count)) + text
    }

    private static func cure(_ place: String, _ wish: FileWish, _ identity: FileIdentity) -> String {
        // The owner of a shared system folder must not change, so the doctor advises another folder.
        guard !isShared(place) else {
            return wish == .read || wish == .enter
                ? "Move the file to /etc/sippushd, readable for the group \(identity.name), and change the setting."
                : "Use a folder of the daemon's own, such as /var/lib/sippushd or /run/sippushd, and change the setting."
        }
        let group = FileIdentity.groupName(identity.group) ?? identity.name
        return switch wish {
        case .read: "chgrp \(group) \(place) && chmod g+r \(place)"
        case .enter: "chgrp \(group) \(place) && chmod g+x \(place)"
        case .write, .fill: "chown \(identity.name): \(place) && chmod u+rwX \(place)"
        }
    }

    /// Whether other programs share the folder, such as `/etc`.
    private static func isShared(_ place: String) -> Bool {
        let shared = [
            "/", "/etc", "/home", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/var", "/var/lib", "/var/log",
            "/var/run", "/var/tmp",
        ]
        return shared.contains(place)
    }

    private static func dynamicCure(_ file: NamedFile) -> String {
        guard file.wish == .read else { return "Use StateDirectory= or RuntimeDirectory= of the unit for this folder." }
        return
            "The unit has DynamicUser=: add LoadCredential=NAME:\(file.path) to it, and name /run/credentials/sippushd.service/NAME in the settings."
    }

    // MARK: Rights

    /// Whether the file's mode or its access control list permits the given use. The user root can use every file.
    static func allows(_ status: FileStatus, _ wish: FileWish, _ identity: FileIdentity) -> Bool {
        guard identity.user != 0 else { return true }
        let needed: UInt32 =
            switch wish {
            case .read: 4
            case .write: 6
            case .fill: 7
            case .enter: 1
            }
        if let list = AccessList(status.accessList) { return list.allows(needed, to: identity, on: status) }
        let bits =
            status.user == identity.user
            ? status.mode >> 6 : identity.isIn(status.group) ? status.mode >> 3 : status.mode
        return bits & needed == needed
    }
}

/// A file's access control list (POSIX.1e draft 17) as the kernel stores it: a version, and entries with a tag, rights
/// and a user or group number.
struct AccessList {
    private var users: [UInt32: UInt32] = [:]
    private var groups: [UInt32: UInt32] = [:]
    private var owner: UInt32 = 0
    private var group: UInt32 = 0
    private var others: UInt32 = 0
    private var mask: UInt32 = 7

    /// Reads the kernel's access control list; `nil` if the bytes are empty or malformed.
    init?(_ bytes: [UInt8]) {
        guard bytes.count > 4, (bytes.count - 4).isMultiple(of: 8), bytes.prefix(4) == [2, 0, 0, 0] else { return nil }
        for start in stride(from: 4, to: bytes.count, by: 8) {
            let entry = bytes[start..<start + 8].map { UInt32($0) }
            let (tag, rights) = (entry[0] | entry[1] << 8, entry[2] | entry[3] << 8)
            let number = entry[4] | entry[5] << 8 | entry[6] << 16 | entry[7] << 24
            switch tag {
            case 0x01: owner = rights
            case 0x02: users[number] = rights
            case 0x04: group = rights
            case 0x08: groups[number] = rights
            case 0x10: mask = rights
            case 0x20: others = rights
            default: return nil
            }
        }
    }

    func allows(_ needed: UInt32, to identity: FileIdentity, on status: FileStatus) -> Bool {
        if status.user == identity.user { return owner & needed == needed }
        if let rights = users[identity.user] { return rights & mask & needed == needed }
        var found = groups.filter { identity.isIn($0.key) }.map(\.value)
        if identity.isIn(status.group) { found.append(group) }
        guard found.isEmpty else { return found.contains { $0 & mask & needed == needed } }
        return others & needed == needed
    }
}
