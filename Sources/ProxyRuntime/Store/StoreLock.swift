import Foundation
import Storage

/// Says that a process uses the store, in a file beside it that is locked for as long as the process lives: two daemons
/// would each believe that what they have in memory is what is stored.
final class StoreLock: Sendable {
    enum Holder: String {
        /// For life.
        case daemon
        /// For a moment.
        case command
    }

    private let lock: FileLock

    /// - Throws: a sentence that names the file and the process that has it.
    init(store path: String, for holder: Holder) throws(StartError) {
        guard let store = resolvedPath(path) else {
            throw StartError("the folder of the store \(path) is not there")
        }
        let file = store + ".lock"
        // A command is soon through; a daemon is not.
        for _ in 0..<Self.patience {
            do throws(FileLock.Failure) {
                lock = try FileLock(path: file, activity: holder.rawValue)
                return
            } catch {
                switch error {
                case .held(_, Holder.command.rawValue): Thread.sleep(forTimeInterval: Self.pause)
                case .held(let process, _): throw StartError(Self.sentence(path, file, process))
                case .system(let reason): throw StartError("the store's lock \(file) cannot be made: \(reason)")
                }
            }
        }
        throw StartError("another command uses the store \(path) all the time: it holds \(file)")
    }

    func release() { lock.release() }

    private static func sentence(_ path: String, _ file: String, _ process: Int32?) -> String {
        let name = process.map { " (process \($0))" } ?? ""
        return "another sippushd\(name) uses the store \(path): it holds \(file)"
    }

    private static let patience = 100
    private static let pause = 0.05
}
