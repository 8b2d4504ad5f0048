/// The maximum number of files and sockets that the daemon's process may open.
package enum ProcessDescriptors {
    /// Raises this process's limit of descriptors to the maximum that the system allows, and enlarges the kernel's
    /// table of descriptors. The program calls ``raiseLimit()`` early, while it has few threads.
    ///
    /// - Returns: the new limit of open file descriptors.
    package static func raiseLimit() -> Int {
        let limit = Int(clamping: System.raiseDescriptorLimit())
        System.growDescriptorTable(to: min(limit, roomAtOnce))
        return limit
    }

    /// The number of descriptors for which the kernel's table is enlarged at the start. A kernel table for 131,072 file
    /// descriptors uses one megabyte.
    private static let roomAtOnce = 1 << 17

    /// The process id of this process. The environment variables of a socket handover contain this process id.
    package static var owner: Int32 { System.process }
}
