/// What others may see of this process's memory, which holds passwords and keys.
package enum ProcessMemory {
    /// From now on no core dump holds the memory, and no other process of the same user may read it (T18). The
    /// superuser still may.
    package static func hide() throws(SystemError) { try System.forbidDumps() }

    package static var isHidden: Bool { !System.allowsDumps }
}
