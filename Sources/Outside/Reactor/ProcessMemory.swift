/// Protects this process's memory, which contains passwords and keys.
package enum ProcessMemory {
    /// Hides the memory. From now on no core dump contains it, and no other process of the same user may read it (T18).
    /// The superuser still may.
    package static func hide() throws(SystemError) { try System.forbidDumps() }

    package static var isHidden: Bool { !System.allowsDumps }
}
