import CEvent
import Glibc

/// A new file without a name. If the program is killed, the kernel removes the file.
package enum UnnamedFile {
    /// Opens a new file in a folder. Only the file's owner may use it.
    ///
    /// - Returns: the descriptor; `nil` if the file system supports no files without a name, or cannot name them later.
    package static func open(in folder: String) -> Int32? {
        guard unsafe access("/proc/self/fd", X_OK) == 0 else { return nil }
        let descriptor = unsafe open_unnamed(folder)
        return descriptor >= 0 ? descriptor : nil
    }

    /// Gives the file a name. If another file has this name, the call fails.
    ///
    /// - Returns: 0, or -1 with the reason in `errno`.
    package static func link(_ descriptor: Int32, as path: String) -> Int32 {
        unsafe linkat(AT_FDCWD, "/proc/self/fd/\(descriptor)", AT_FDCWD, path, AT_SYMLINK_FOLLOW)
    }
}
