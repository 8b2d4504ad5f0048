/// The limit of open files and sockets of this process.
package enum ProcessDescriptors {
    /// Requests the maximum that the system allows, and grows the kernel's table for it. Call early, while few threads
    /// exist.
    ///
    /// - Returns: the limit from now on.
    package static func raiseLimit() -> Int {
        let limit = Int(clamping: System.raiseDescriptorLimit())
        System.growDescriptorTable(to: min(limit, roomAtOnce))
        return limit
    }

    /// A megabyte of the kernel's memory.
    private static let roomAtOnce = 1 << 17

    /// The number of this process, by which environment variables refer to it.
    package static var owner: Int32 { System.process }
}
