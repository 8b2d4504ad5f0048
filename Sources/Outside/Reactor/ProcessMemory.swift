/// Hides the memory of the daemon's process, which contains passwords and keys, from other programs.
package enum ProcessMemory {
    /// Excludes this process's memory from core dumps, and forbids other processes of the same user to read this memory
    /// (T18). The superuser can still read the memory of the process.
    package static func hide() throws(SystemError) { try System.forbidDumps() }

    package static var isHidden: Bool { !System.allowsDumps }
}
