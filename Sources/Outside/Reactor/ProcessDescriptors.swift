/// The limit of open files and sockets of this process.
package enum ProcessDescriptors {
    /// Raises this process's limit of descriptors to the maximum that the system allows, and enlarges the kernel's
    /// table of descriptors. The program calls this function early, while it has few threads.
    ///
    /// - Returns: the new limit.
    package static func raiseLimit() -> Int {
        let limit = Int(clamping: System.raiseDescriptorLimit())
        System.growDescriptorTable(to: min(limit, roomAtOnce))
        return limit
    }

    /// The number of descriptors for which the kernel's table is enlarged at the start. A table of this size uses one
    /// megabyte.
    private static let roomAtOnce = 1 << 17

    /// The process id of this process. The environment variables of a socket handover contain this process id.
    package static var owner: Int32 { System.process }
}
