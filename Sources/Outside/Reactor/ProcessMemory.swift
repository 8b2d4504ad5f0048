/// Protects this process's memory, which contains passwords and keys.
package enum ProcessMemory {
    /// Excludes this process's memory from core dumps, and forbids other processes of the same user to read this memory
    /// (T18). The superuser can still read the memory of the process.
    package static func hide() throws(SystemError) { try System.forbidDumps() }

    package static var isHidden: Bool { !System.allowsDumps }
}
