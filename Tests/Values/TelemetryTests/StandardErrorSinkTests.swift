import Glibc
import Telemetry
import Testing
import Timekeeping

@Suite("Standard error")
struct StandardErrorSinkTests {
    @Test func `a reader that does not keep up loses lines, gets their number, and stops nobody`() {
        var ends: [Int32] = [0, 0]
        #expect(unsafe pipe(&ends) == 0)
        defer { ends.forEach { close($0) } }
        let sink = StandardErrorSink(descriptor: ends[1])
        let log = Log(level: .info, format: .journal, sink: sink) { UnixTime(milliseconds: 0) }
        // Some of the hundred lines must be lost, because a pipe holds only 64 KiB.
        for _ in 0..<100 { log.info("m", [.reason: .text(String(repeating: "x", count: 1000))]) }
        let first = read(ends[0])
        #expect(first.count < 100)
        #expect(first.allSatisfy { $0.hasPrefix("<6>m reason=xxx") && $0.utf8.count == 1012 })
        log.info("again")
        #expect(
            read(ends[0]) == [
                "<4>log lines were dropped: the program that reads them is too slow count=\(100 - first.count)",
                "<6>again",
            ])
    }

    private func read(_ descriptor: Int32) -> [Substring] {
        var chunk = [UInt8](repeating: 0, count: 1 << 17)
        let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
        return String(decoding: chunk.prefix(max(0, count)), as: UTF8.self).split(separator: "\n")
    }
}
