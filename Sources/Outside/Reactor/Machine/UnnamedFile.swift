import CEvent
import Glibc

/// Creates unnamed files, which the kernel removes if the program is killed, and names them later.
package enum UnnamedFile {
    /// Opens a new unnamed file in a folder, for its owner alone.
    ///
    /// - Returns: the descriptor; `nil` if the file system has no unnamed files, or cannot name such files later.
    package static func open(in folder: String) -> Int32? {
        guard unsafe access("/proc/self/fd", X_OK) == 0 else { return nil }
        let descriptor = unsafe open_unnamed(folder)
        return descriptor >= 0 ? descriptor : nil
    }

    /// Gives an unnamed file a name; fails if another file has the name.
    ///
    /// - Returns: 0, or -1 with the reason in `errno`.
    package static func link(_ descriptor: Int32, as path: String) -> Int32 {
        unsafe linkat(AT_FDCWD, "/proc/self/fd/\(descriptor)", AT_FDCWD, path, AT_SYMLINK_FOLLOW)
    }
}
