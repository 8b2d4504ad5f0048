package enum ProcessMemory {
    /// Excludes this process's memory from core dumps, and forbids other processes of the same user to read the memory
    /// (T18). The superuser can still read the memory.
    package static func hide() throws(SystemError) { try System.forbidDumps() }

    package static var isHidden: Bool { !System.allowsDumps }
}
