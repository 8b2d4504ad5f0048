import Foundation
import Storage
import TestSupport
import Testing

@Suite("A file that one process holds")
struct FileLockTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private var path: String { folder.path + "/test.lock" }

    @Test func `a second holder is refused and gets the number of the first, until the first releases the lock`() throws
    {
        let first = try FileLock(path: path, activity: "daemon")
        let own = ProcessInfo.processInfo.processIdentifier
        #expect(throws: FileLock.Failure.held(by: own, activity: "daemon")) {
            try FileLock(path: path, activity: "command")
        }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "\(own) daemon\n")
        first.release()
        first.release()
        let second = try FileLock(path: path, activity: "c")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "\(own) c\n")
        second.release()
    }

    @Test func `a file that lost its name is locked again under it, unless another process has taken the name`() throws
    {
        let first = try FileLock(path: path, activity: "a")
        #expect(try !first.renew(path: path, activity: "a"))
        try FileManager.default.removeItem(atPath: path)
        #expect(try first.renew(path: path, activity: "a"))
        let own = ProcessInfo.processInfo.processIdentifier
        let held = FileLock.Failure.held(by: own, activity: "a")
        #expect(throws: held) { try FileLock(path: path, activity: "b") }
        try FileManager.default.removeItem(atPath: path)
        let second = try FileLock(path: path, activity: "b")
        #expect(throws: FileLock.Failure.held(by: own, activity: "b")) { try first.renew(path: path, activity: "a") }
        second.release()
        #expect(try first.renew(path: path, activity: "a"))
        first.release()
        #expect(try !first.renew(path: path, activity: "a"))
    }

    @Test func `the lock ends with its last owner`() throws {
        do { _ = try FileLock(path: path, activity: "a") }
        _ = try FileLock(path: path, activity: "b")
    }

    /// The copied descriptor imitates a child process between fork and exec.
    @Test func `a copy of the descriptor in a child process does not keep the lock`() throws {
        let first = try FileLock(path: path, activity: "a")
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { Int32($0) }
        let target = URL(filePath: path).resolvingSymlinksInPath().path
        let own = try #require(
            descriptors.first { number in
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)")) == target
            })
        let copy = dup(own)
        defer { close(copy) }
        first.release()
        try FileLock(path: path, activity: "b").release()
    }

    @Test func `a missing folder is reported with the system's error`() {
        #expect(throws: FileLock.Failure.system("No such file or directory")) {
            try FileLock(path: folder.path + "/none/test.lock", activity: "a")
        }
    }
}
