/// What others may see of this process's memory, which holds passwords and keys.
package enum ProcessMemory {
    /// From now on no core dump holds it, and no other process of the same user may read it (T18). Only what the superuser
    /// may do is not hindered.
    package static func hide() throws(SystemError) { try System.forbidDumps() }

    package static var isHidden: Bool { !System.allowsDumps }
}
