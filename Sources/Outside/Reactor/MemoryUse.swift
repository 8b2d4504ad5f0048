import FoundationEssentials
import Glibc

/// How much memory this process has, and how much it may have.
package enum MemoryUse {
    /// Bytes that are in memory now; 0 when the kernel does not say.
    package static var resident: Int {
        // The second number is what is resident, in pages (proc(5)).
        let pages = text("/proc/self/statm").split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return pages.multipliedReportingOverflow(by: Int(sysconf(Int32(_SC_PAGESIZE)))).partialValue
    }

    /// What the group of processes that we are in may have (`MemoryMax=` of a systemd unit); `nil` without a limit.
    package static var allowed: Int? { allowed(group: text("/proc/self/cgroup")) { text($0) } }

    /// - Parameters:
    ///   - group: what `/proc/self/cgroup` says.
    ///   - read: the text of a file, empty if it cannot be read.
    /// - Returns: the least limit of the group and of those that it is in.
    package static func allowed(group: String, read: (String) -> String) -> Int? {
        let lines = group.split(separator: "\n")
        guard let path = lines.lazy.filter({ $0.hasPrefix("0::/") }).map({ $0.dropFirst(3) }).first else { return nil }
        var least: Int?
        var rest = path[...]
        // A limit of a group holds for all that are in it, so that the least of them counts.
        while true {
            let folder = rest == "/" ? "" : rest
            if let limit = Int(read("/sys/fs/cgroup\(folder)/memory.max").filter { !$0.isWhitespace }) {
                least = min(least ?? limit, limit)
            }
            guard let slash = rest.lastIndex(of: "/"), rest != "/" else { return least }
            rest = slash == rest.startIndex ? "/" : rest[..<slash]
        }
    }

    private static func text(_ path: String) -> String {
        String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
    }
}
