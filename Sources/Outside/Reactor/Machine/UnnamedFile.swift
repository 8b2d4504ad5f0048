import CEvent
import Glibc

/// A file that has no name yet. If the program is killed, the kernel removes it.
package enum UnnamedFile {
    /// Opens a new file in a folder, for its owner alone.
    ///
    /// - Returns: the descriptor; `nil` where there are no such files, or none that could get a name later.
    package static func open(in folder: String) -> Int32? {
        guard unsafe access("/proc/self/fd", X_OK) == 0 else { return nil }
        let descriptor = unsafe open_unnamed(folder)
        return descriptor >= 0 ? descriptor : nil
    }

    /// Gives the file a name, unless a file of that name exists.
    ///
    /// - Returns: 0, or -1 with the reason in `errno`.
    package static func link(_ descriptor: Int32, as path: String) -> Int32 {
        unsafe linkat(AT_FDCWD, "/proc/self/fd/\(descriptor)", AT_FDCWD, path, AT_SYMLINK_FOLLOW)
    }
}
