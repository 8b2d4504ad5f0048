import Glibc
import Testing

@testable import Telemetry

@Suite("Whether journald reads the log")
struct JournalStreamTests {
    @Test func `only the file that the variable names is journald`() throws {
        var ends: [Int32] = [0, 0]
        try #require(unsafe pipe(&ends) == 0)
        defer { ends.forEach { close($0) } }
        var status = stat()
        try #require(unsafe fstat(ends[1], &status) == 0)
        let name = "\(status.st_dev):\(status.st_ino)"
        #expect(JournalStream.isBehind(ends[1], named: name))
        // The descriptor is another file, as when somebody has redirected the daemon's output.
        #expect(!JournalStream.isBehind(STDIN_FILENO, named: name))
        for other in [nil, "", "\(status.st_dev):\(status.st_ino &+ 1)", "\(status.st_ino)", ":", name + " "] {
            #expect(!JournalStream.isBehind(ends[1], named: other), "\(other ?? "nil")")
        }
        #expect(!JournalStream.isBehind(-1, named: name))
    }
}
