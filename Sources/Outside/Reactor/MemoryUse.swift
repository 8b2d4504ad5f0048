import FoundationEssentials
import Glibc

/// Reads the memory use of this process, and its memory limit.
package enum MemoryUse {
    /// The memory of this process in RAM, in bytes; 0 if the kernel does not report the value.
    package static var resident: Int {
        // The second number in `statm` is the resident memory in pages (proc(5)).
        let pages = text("/proc/self/statm").split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return pages.multipliedReportingOverflow(by: Int(sysconf(Int32(_SC_PAGESIZE)))).partialValue
    }

    /// The memory limit of this process's control group (`MemoryMax=` of a systemd unit) in bytes; `nil` if the group
    /// has no limit.
    package static var allowed: Int? { allowed(group: text("/proc/self/cgroup")) { text($0) } }

    /// Reads the memory limit of a control group, in bytes.
    ///
    /// - Parameters:
    ///   - group: the contents of `/proc/self/cgroup`.
    ///   - read: returns the text of a file, or an empty text if the file cannot be read.
    /// - Returns: the lowest limit of the group and its ancestors; `nil` if no limit is set.
    package static func allowed(group: String, read: (String) -> String) -> Int? {
        let lines = group.split(separator: "\n")
        guard let path = lines.lazy.filter({ $0.hasPrefix("0::/") }).map({ $0.dropFirst(3) }).first else { return nil }
        var least: Int?
        var rest = path[...]
        // The memory limit of a control group also applies to the groups inside it.
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
