import CEvent
import Glibc

/// Creates new files that have no name, and can give them a name later. The kernel removes a file without a name if the
/// program is killed.
package enum UnnamedFile {
    /// Opens a new file without a name in a folder. Only the owner of the unnamed file can use the file.
    ///
    /// - Returns: the descriptor; `nil` if the file system supports no files without a name, or cannot name such files
    ///   later.
    package static func open(in folder: String) -> Int32? {
        guard unsafe access("/proc/self/fd", X_OK) == 0 else { return nil }
        let descriptor = unsafe open_unnamed(folder)
        return descriptor >= 0 ? descriptor : nil
    }

    /// Gives a file without a name its name. If another file already has the name, the function fails.
    ///
    /// - Returns: 0, or -1 with the reason in `errno`.
    package static func link(_ descriptor: Int32, as path: String) -> Int32 {
        unsafe linkat(AT_FDCWD, "/proc/self/fd/\(descriptor)", AT_FDCWD, path, AT_SYMLINK_FOLLOW)
    }
}
