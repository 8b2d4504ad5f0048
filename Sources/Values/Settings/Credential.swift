import Glibc

/// A file that systemd passes to the service (`LoadCredential=` in the unit). Settings name it as `credential:NAME`.
///
/// systemd reads the file as root and shows a copy to the service alone. So keys can stay root's.
package enum Credential {
    private static let prefix = "credential:"
    private static let variable = "CREDENTIALS_DIRECTORY"

    /// Whether systemd started this process with credentials.
    package static var isPassed: Bool { passedFolder != nil }

    /// The folder of the credentials. A process outside the service looks where systemd puts those of the unit.
    private static var folder: String { passedFolder ?? "/run/credentials/sippushd.service" }

    private static var passedFolder: String? {
        guard let folder = unsafe getenv(variable).map({ unsafe String(cString: $0) }), folder.hasPrefix("/") else {
            return nil
        }
        return folder
    }

    /// The path that a setting means. Texts without the prefix are paths already.
    package static func path(of text: String) throws(SettingComplaint) -> String {
        guard text.hasPrefix(prefix) else { return text }
        let name = String(text.dropFirst(prefix.count))
        guard isName(name) else { throw SettingComplaint("expected credential: and a name of LoadCredential=") }
        return "\(folder)/\(name)"
    }

    /// The text that settings have for this path; `nil` if no credential is there.
    package static func text(of path: String) -> String? {
        guard path.hasPrefix(folder + "/") else { return nil }
        return prefix + path.dropFirst(folder.utf8.count + 1)
    }

    /// Whether the path is of a credential that is not there.
    package static func isMissing(_ path: String) -> Bool {
        guard text(of: path) != nil else { return false }
        return unsafe access(path, F_OK) != 0
    }

    /// systemd's rule for the name: one name of a file, of printable ASCII without a colon.
    private static func isName(_ name: String) -> Bool {
        name != "." && name != ".." && 1...255 ~= name.utf8.count
            && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ":") }
    }
}
