import Foundation

/// The processor time and the resident memory of a process, from the kernel.
package struct ProcessFigures: Sendable {
    /// The user and system time of all threads so far, in steps of 10 ms.
    package let cpu: Duration
    package let residentBytes: Int

    init(of process: Int32) throws(BenchmarkError) {
        let folder = "/proc/\(process)"
        guard let stat = try? String(contentsOfFile: folder + "/stat", encoding: .utf8),
            let status = try? String(contentsOfFile: folder + "/status", encoding: .utf8),
            let figures = ProcessFigures(stat: stat, status: status, ticksPerSecond: sysconf(Int32(_SC_CLK_TCK)))
        else { throw BenchmarkError("\(folder) cannot be read: has the daemon ended?") }
        self = figures
    }

    /// Reads the texts of the files `stat` and `status` (proc(5)).
    package init?(stat: String, status: String, ticksPerSecond: Int) {
        guard let cpu = Self.cpu(stat: stat, ticksPerSecond: ticksPerSecond) else { return nil }
        let resident = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        guard let kilobytes = resident?.split(whereSeparator: { " \t".contains($0) }).dropFirst().first,
            let kilobytes = Int(kilobytes)
        else { return nil }
        self.cpu = cpu
        residentBytes = kilobytes * 1024
    }

    /// Reads the processor time in the text of a file `stat`, of a process or of a thread.
    static func cpu(stat: String, ticksPerSecond: Int) -> Duration? {
        // The program's name in parentheses can contain any character, so fields are counted from the closing
        // parenthesis, after field 2.
        guard let parenthesis = stat.lastIndex(of: ")") else { return nil }
        let fields = stat[parenthesis...].split(separator: " ")
        guard fields.count > 13, let user = Int(fields[12]), let system = Int(fields[13]) else { return nil }
        return .seconds(user + system) / ticksPerSecond
    }
}
