import Glibc

/// A file that systemd passes to the service (`LoadCredential=` in the unit). In the settings, `credential:NAME` means
/// the path of the file that systemd passes.
///
/// systemd reads the original file as root and gives the service a copy, so only root needs access to the original
/// file.
package enum Credential {
    private static let prefix = "credential:"
    private static let variable = "CREDENTIALS_DIRECTORY"

    /// Whether systemd started this process with credentials.
    package static var isPassed: Bool { passedFolder != nil }

    /// The folder in which systemd stores the service's credentials. If systemd did not start this process, the folder
    /// is the place in which systemd stores the credentials for the unit.
    private static var folder: String { passedFolder ?? "/run/credentials/sippushd.service" }

    private static var passedFolder: String? {
        guard let folder = unsafe getenv(variable).map({ unsafe String(cString: $0) }), folder.hasPrefix("/") else {
            return nil
        }
        return folder
    }

    /// Converts the text of a setting to the path of a file; `credential:NAME` becomes the path of systemd's copy. A
    /// text that does not begin with `credential:` is returned unchanged.
    package static func path(of text: String) throws(SettingComplaint) -> String {
        guard text.hasPrefix(prefix) else { return text }
        let name = String(text.dropFirst(prefix.count))
        guard isName(name) else { throw SettingComplaint("expected credential: and a name of LoadCredential=") }
        return "\(folder)/\(name)"
    }

    /// The text by which settings name the file, such as `credential:NAME`; `nil` if the file is not a credential.
    package static func text(of path: String) -> String? {
        guard path.hasPrefix(folder + "/") else { return nil }
        return prefix + path.dropFirst(folder.utf8.count + 1)
    }

    /// Whether the path names a credential that does not exist.
    package static func isMissing(_ path: String) -> Bool {
        guard text(of: path) != nil else { return false }
        return unsafe access(path, F_OK) != 0
    }

    /// Whether systemd accepts the text as the name of a credential: a single file name of printable ASCII characters
    /// without a colon.
    private static func isName(_ name: String) -> Bool {
        name != "." && name != ".." && 1...255 ~= name.utf8.count
            && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ":") }
    }
}
