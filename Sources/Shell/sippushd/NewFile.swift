import Glibc
import Reactor

/// A file that the program creates and that only its owner can read. The new file gets its name only after it is
/// complete and on the disk.
///
/// An incomplete file has no name, so a killed program leaves no file behind. On file systems without unnamed files,
/// the incomplete file is called `.NAME.PID.partial`.
///
/// Another user with access to the folder cannot redirect the program, because the file is new and no link is followed.
final class NewFile {
    private let path: String
    private let temporary: String
    private let descriptor: Int32
    private let replaces: Bool
    /// Whether the incomplete file has the name `temporary`.
    private var isPartial: Bool
    private var waiting: [UInt8] = []

    /// - Parameters:
    ///   - path: the path of the file, at which no file may exist unless `replaces` is true.
    ///   - mode: the file's access rights.
    ///   - replaces: whether an existing file at the path is replaced at the end.
    ///   - hasName: whether the file has a name from the beginning, as on file systems without unnamed files.
    /// - Throws: an error that names the file, if the file cannot be written.
    init(
        path: String, mode: mode_t = 0o600, replaces: Bool = false, hasName: Bool = false
    ) throws(Command.Failure) {
        if !replaces, unsafe access(path, F_OK) == 0 {
            throw .failed("\(path) exists already and is unchanged")
        }
        self.path = path
        self.replaces = replaces
        let slash = path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex
        temporary = "\(path[..<slash]).\(path[slash...]).\(getpid()).partial"
        let folder = slash == path.startIndex ? "." : String(path[..<slash])
        if !hasName, let unnamed = UnnamedFile.open(in: folder) {
            descriptor = unnamed
            isPartial = false
        } else {
            descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
            isPartial = descriptor >= 0
        }
        guard descriptor >= 0 else { throw .failed("\(path) cannot be created: \(systemReason())") }
        guard fchmod(descriptor, mode) == 0 else { throw .failed("\(path) cannot be created: \(systemReason())") }
    }

    deinit {
        close(descriptor)
        if isPartial { unsafe unlink(temporary) }
    }

    func write(_ text: String) throws(Command.Failure) { try write(Array(text.utf8)) }

    func write(_ bytes: [UInt8]) throws(Command.Failure) {
        waiting += bytes
        if waiting.count >= 65_536 { try flush() }
    }

    /// Makes the given group the owner of the file. The file's mode decides whether the group can read the file.
    func give(toGroup group: gid_t) throws(Command.Failure) {
        guard fchown(descriptor, uid_t.max, group) == 0 else { throw failure() }
    }

    /// Writes the rest of the file to the disk, and gives the file its name.
    func finish() throws(Command.Failure) {
        try flush()
        guard fsync(descriptor) == 0 else { throw failure() }
        // A file that replaces no other gets its name by a link, because a link fails if the name exists. A rename
        // would replace the existing file.
        guard replaces else {
            let result = isPartial ? unsafe link(temporary, path) : UnnamedFile.link(descriptor, as: path)
            guard result == 0 else { throw failure() }
            return
        }
        if !isPartial {
            guard UnnamedFile.link(descriptor, as: temporary) == 0 else { throw failure() }
            isPartial = true
        }
        guard unsafe rename(temporary, path) == 0 else { throw failure() }
        isPartial = false
    }

    private func flush() throws(Command.Failure) {
        var rest = waiting[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw failure() }
            rest = rest.dropFirst(count)
        }
        waiting = []
    }

    private func failure() -> Command.Failure { .failed("\(path) cannot be written: \(systemReason())") }
}
