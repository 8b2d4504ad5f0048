/// The limit of open files and sockets of this process.
package enum ProcessDescriptors {
    /// Raises this process's limit of descriptors to the maximum that the system allows, and enlarges the kernel's
    /// table of descriptors. Call this function early, while few threads exist.
    ///
    /// - Returns: the new limit.
    package static func raiseLimit() -> Int {
        let limit = Int(clamping: System.raiseDescriptorLimit())
        System.growDescriptorTable(to: min(limit, roomAtOnce))
        return limit
    }

    /// The size to which the kernel's table of descriptors is enlarged immediately. The kernel's table then uses one
    /// megabyte.
    private static let roomAtOnce = 1 << 17

    /// The process id of this process. Environment variables for socket handover contain this id.
    package static var owner: Int32 { System.process }
}
