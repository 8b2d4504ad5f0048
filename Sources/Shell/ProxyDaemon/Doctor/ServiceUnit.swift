/// The lines of a systemd unit that decide which files the service can read and write.
package struct ServiceUnit: Hashable, Sendable {
    package private(set) var user: String?
    package private(set) var group: String?
    package private(set) var groups: [String] = []
    package private(set) var isDynamic = false
    /// The files that systemd reads as root, by the credential names of the service.
    package private(set) var credentials: [String: String] = [:]
    /// Whether the systemd unit hides the home folders `/home`, `/root` and `/run/user`.
    package private(set) var hidesHomes = false
    package private(set) var hasOwnTemporaryFolder = false
    /// Whether the service can write only to the folders in ``writable``.
    package private(set) var isReadOnly = false
    /// The writable folders of a service for which all other folders are read-only.
    package private(set) var writable: [String] = []
    package private(set) var openFiles: Int?

    /// Reads the systemd unit, and its drop-ins in order.
    package init(_ texts: [String]) {
        for line in texts.flatMap({ $0.split(separator: "\n") }) {
            let sides = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2, !line.hasPrefix("#"), !line.hasPrefix(";") else { continue }
            take(Self.trimmed(sides[0]), Self.trimmed(sides[1]))
        }
    }

    private mutating func take(_ key: String, _ value: String) {
        let words = value.split(separator: " ").map(String.init)
        switch key {
        case "User": user = value.isEmpty ? nil : value
        case "Group": group = value.isEmpty ? nil : value
        case "SupplementaryGroups": groups = value.isEmpty ? [] : groups + words
        case "DynamicUser": isDynamic = Self.isOn(value)
        case "LoadCredential", "LoadCredentialEncrypted": load(value)
        case "ProtectHome": hidesHomes = Self.isOn(value) || value == "tmpfs"
        case "PrivateTmp": hasOwnTemporaryFolder = Self.isOn(value) || value == "disconnected"
        case "ProtectSystem": isReadOnly = value == "strict"
        case "StateDirectory": add(words, under: "/var/lib/")
        case "RuntimeDirectory": add(words, under: "/run/")
        case "LogsDirectory": add(words, under: "/var/log/")
        case "CacheDirectory": add(words, under: "/var/cache/")
        case "ReadWritePaths": add(words.map { $0.drop { "-+".contains($0) }.description }, under: "")
        case "LimitNOFILE": openFiles = value.split(separator: ":").last.flatMap { Int($0) }
        default: break
        }
    }

    private mutating func load(_ value: String) {
        let parts = value.split(separator: ":", maxSplits: 1).map(String.init)
        if parts.count == 2 { credentials[parts[0]] = parts[1] } else if value.isEmpty { credentials = [:] }
    }

    private mutating func add(_ names: [String], under folder: String) { writable += names.map { folder + $0 } }

    private static func trimmed(_ text: Substring) -> String {
        var text = text
        while text.first == " " || text.first == "\t" { text.removeFirst() }
        while text.last == " " || text.last == "\t" || text.last == "\r" { text.removeLast() }
        return String(text)
    }

    private static func isOn(_ value: String) -> Bool { ["yes", "true", "on", "1"].contains(value.lowercased()) }
}

extension ServiceUnit {
    /// Returns the folder in which the service finds its credentials.
    package static func credentialsFolder(of unit: String) -> String { "/run/credentials/\(unit)" }

    /// Why the unit keeps the service from seeing or writing the path; `nil` if the unit permits the access.
    package func obstacle(to path: String, isWritten: Bool) -> String? {
        if hidesHomes, ["/home/", "/root/", "/run/user/"].contains(where: { path.hasPrefix($0) }) {
            return "ProtectHome= in the unit hides the file from the service"
        }
        if hasOwnTemporaryFolder, path.hasPrefix("/tmp/") || path.hasPrefix("/var/tmp/") {
            return "PrivateTmp= in the unit gives the service a temporary folder of its own"
        }
        guard isWritten, isReadOnly, !path.hasPrefix("/dev/"), !path.hasPrefix("/proc/"), !path.hasPrefix("/sys/")
        else { return nil }
        guard writable.contains(where: { path == $0 || path.hasPrefix($0 + "/") }) else {
            return "ProtectSystem=strict in the unit lets the service write only to \(writable.joined(separator: ", "))"
        }
        return nil
    }
}
