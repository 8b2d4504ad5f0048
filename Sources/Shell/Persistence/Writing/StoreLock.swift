import FoundationEssentials
import Glibc
import Reactor
import Storage
import Telemetry
import Timekeeping

/// Keeps other processes out of the store with a lock file in the store's folder. Without the lock, two daemons with
/// one store would overwrite each other's changes.
final class StoreLock {
    enum Holder: String {
        /// The daemon, which holds the lock while it runs.
        case daemon
        /// A command, which holds the lock only briefly.
        case command
    }

    /// Whether the store did not exist when this process took the lock.
    let isNewStore: Bool
    private let lock: FileLock
    private let file: String
    private let holder: Holder
    private var timer: LoopTimer?
    private var hasToldOfFailure = false

    /// Takes the lock of the store.
    ///
    /// - Throws: an error that names the lock file and the process that holds the lock.
    convenience init(store path: String, for holder: Holder) throws(StoreError) {
        try self.init(path, holder, isFile: true)
    }

    /// Takes the lock of a store whose database is elsewhere. Only other files are beside the path.
    convenience init(beside path: String, for holder: Holder) throws(StoreError) {
        try self.init(path, holder, isFile: false)
    }

    private init(_ path: String, _ holder: Holder, isFile: Bool) throws(StoreError) {
        guard let store = resolvedPath(path) else {
            throw StoreError("the folder of the store \(path) does not exist; create it, or correct the setting store")
        }
        self.holder = holder
        file = store + ".lock"
        isNewStore = FileIdentity(path: store) == nil
        // The lock file survives the process, and its mark shows that the store was created. The daemon must not start
        // with an empty store in place of a missing store, because users, contacts and missed calls would be lost.
        guard !isFile || !isNewStore || !FileLock.hasMark(Self.made, path: file) || FileIdentity(path: store) != nil
        else {
            throw StoreError(
                "the store \(path) is missing, but \(file) shows that it existed. Is its disk not mounted, or was it moved? Put it back, or restore a backup. To start with an empty store, remove \(file)"
            )
        }
        // A process waits for a command's lock, because a command releases the lock soon. A process does not wait for a
        // daemon's lock, because a daemon keeps the lock until its end.
        for _ in 0..<Self.patience {
            do throws(FileLock.Failure) {
                lock = try FileLock(path: file, activity: holder.rawValue)
                return
            } catch {
                switch error {
                case .held(_, Holder.command.rawValue): usleep(Self.pause)
                case .held(let process, _): throw StoreError(Self.sentence(path, file, process), isInUse: true)
                case .system(let reason): throw StoreError("the store's lock \(file) cannot be created: \(reason)")
                }
            }
        }
        throw StoreError("another command keeps the store \(path) in use: it holds \(file)")
    }

    /// Starts regular checks that the lock file still exists. A removed lock file is created again, to keep a second
    /// daemon out.
    func watch(on loop: EventLoop, log: Log) throws(SystemError) {
        timer = try LoopTimer(on: loop) { [weak self] in
            self?.look(log)
            self?.timer?.arm(at: loop.now + Self.interval)
        }
        timer?.arm(at: loop.now + Self.interval)
    }

    private func look(_ log: Log) {
        do throws(FileLock.Failure) {
            if try lock.renew(path: file, activity: holder.rawValue) {
                log.warning(
                    "somebody removed the store's lock file; the daemon created the file again", [.path: .text(file)])
            }
            hasToldOfFailure = false
        } catch {
            guard !hasToldOfFailure else { return }
            hasToldOfFailure = true
            log.error(
                "somebody removed the store's lock file, and the daemon cannot create the file again",
                [.path: .text(file), .error: .described(error)])
        }
    }

    /// Marks in the lock file that the store was created, so that a later start can report a missing store.
    func storeIsMade() throws(StoreError) {
        do throws(FileLock.Failure) { try lock.mark(Self.made) } catch {
            throw StoreError("the store's lock \(file) cannot be written: \(error)")
        }
    }

    private static let made: StaticString = "made"

    func release() {
        timer = nil
        lock.release()
    }

    private static func sentence(_ path: String, _ file: String, _ process: Int32?) -> String {
        let name = process.map { " (process \($0))" } ?? ""
        return "another sippushd\(name) uses the store \(path): it holds \(file)"
    }

    private static let interval: Duration = .seconds(1)
    private static let patience = 100
    /// The pause between two tries to take the lock, in microseconds.
    private static let pause: UInt32 = 50_000
}
