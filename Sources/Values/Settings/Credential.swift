import Glibc

/// A file that systemd passes to the service (`LoadCredential=` in the unit), and that settings name `credential:NAME`.
///
/// systemd reads the original file as root, and gives the service a copy.
package enum Credential {
    private static let prefix = "credential:"
    private static let variable = "CREDENTIALS_DIRECTORY"

    /// Whether systemd started this process with credentials.
    package static var isPassed: Bool { passedFolder != nil }

    /// The folder of the service's credentials. If systemd did not start this process, the folder is where systemd
    /// stores the unit's credentials.
    private static var folder: String { passedFolder ?? "/run/credentials/sippushd.service" }

    private static var passedFolder: String? {
        guard let folder = unsafe getenv(variable).map({ unsafe String(cString: $0) }), folder.hasPrefix("/") else {
            return nil
        }
        return folder
    }

    /// Converts a setting to the path of a file; `credential:NAME` becomes the path of systemd's copy. Texts without
    /// `credential:` are returned unchanged.
    package static func path(of text: String) throws(SettingComplaint) -> String {
        guard text.hasPrefix(prefix) else { return text }
        let name = String(text.dropFirst(prefix.count))
        guard isName(name) else { throw SettingComplaint("expected credential: and a name of LoadCredential=") }
        return "\(folder)/\(name)"
    }

    /// The setting that names the file, such as `credential:NAME`; `nil` if the file is no credential.
    package static func text(of path: String) -> String? {
        guard path.hasPrefix(folder + "/") else { return nil }
        return prefix + path.dropFirst(folder.utf8.count + 1)
    }

    /// Whether the path names a credential that does not exist.
    package static func isMissing(_ path: String) -> Bool {
        guard text(of: path) != nil else { return false }
        return unsafe access(path, F_OK) != 0
    }

    /// Whether systemd accepts the text as a credential's name: a file name of printable ASCII without a colon.
    private static func isName(_ name: String) -> Bool {
        name != "." && name != ".." && 1...255 ~= name.utf8.count
            && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ":") }
    }
}
