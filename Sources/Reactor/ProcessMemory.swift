import CEvent

/// What others may see of this process's memory, which holds passwords and keys, and how it is taken from the kernel.
package enum ProcessMemory {
    /// From now on memory is taken from the kernel in large pieces, which all threads share. Call it before there are
    /// other threads.
    ///
    /// glibc gives each thread a heap of its own, which grows and shrinks page by page, with a system call each time: more
    /// than two for a call that is held. Here one thread works and others are handed what it made, so that one heap is
    /// smaller, too. It gives back what is free at its end beyond 32 MiB.
    package static func useOneHeap() {
        mallopt(M_ARENA_MAX, 1)
        mallopt(M_TOP_PAD, 1 << 20)
        mallopt(M_TRIM_THRESHOLD, 32 << 20)
        mallopt(M_MMAP_THRESHOLD, 1 << 20)
    }

    /// From now on no core dump holds the memory, and no other process of the same user may read it (T18). The
    /// superuser still may.
    package static func hide() throws(SystemError) { try System.forbidDumps() }

    package static var isHidden: Bool { !System.allowsDumps }
}
