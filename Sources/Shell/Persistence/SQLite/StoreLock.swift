import FoundationEssentials
import Glibc
import Reactor
import Storage
import Telemetry
import Timekeeping

/// Says that a process uses the store, in a file beside it that is locked for as long as the process lives: two daemons
/// would each believe that what they have in memory is what is stored.
final class StoreLock {
    enum Holder: String {
        /// The daemon holds the lock for as long as it runs.
        case daemon
        /// A command holds the lock for a moment.
        case command
    }

    /// There was no store when the lock was taken.
    let isNewStore: Bool
    private let lock: FileLock
    private let file: String
    private let holder: Holder
    private var timer: LoopTimer?
    private var hasToldOfFailure = false

    /// - Throws: a sentence that names the file and the process that has it.
    init(store path: String, for holder: Holder) throws(StoreError) {
        guard let store = resolvedPath(path) else {
            throw StoreError("the folder of the store \(path) is not there")
        }
        self.holder = holder
        file = store + ".lock"
        isNewStore = FileIdentity(path: store) == nil
        // The lock's file stays, and its mark says that a store was made. An empty one would begin without users, contacts and
        // missed calls. A start that ended before it had made the store has left no mark.
        guard !isNewStore || !FileLock.hasMark(Self.made, path: file) || FileIdentity(path: store) != nil else {
            throw StoreError(
                "the store \(path) is not there, but it was: \(file) is left of it. Is its disk not mounted, or was it moved? Put it back, or a backup of it. To begin with an empty store, remove \(file)"
            )
        }
        // A command is soon through; a daemon is not.
        for _ in 0..<Self.patience {
            do throws(FileLock.Failure) {
                lock = try FileLock(path: file, activity: holder.rawValue)
                return
            } catch {
                switch error {
                case .held(_, Holder.command.rawValue): usleep(Self.pause)
                case .held(let process, _): throw StoreError(Self.sentence(path, file, process), isInUse: true)
                case .system(let reason): throw StoreError("the store's lock \(file) cannot be made: \(reason)")
                }
            }
        }
        throw StoreError("another command uses the store \(path) all the time: it holds \(file)")
    }

    /// From now on makes sure that the file keeps its name, so that a second daemon is kept out even if somebody
    /// removes it.
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
                log.warning("somebody removed the store's lock; it was taken anew", [.path: .text(file)])
            }
            hasToldOfFailure = false
        } catch {
            guard !hasToldOfFailure else { return }
            hasToldOfFailure = true
            log.error(
                "somebody removed the store's lock, and it cannot be taken anew",
                [.path: .text(file), .error: .described(error)])
        }
    }

    /// The store is there: a later start without it asks where it is.
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
    /// In microseconds.
    private static let pause: UInt32 = 50_000
}
