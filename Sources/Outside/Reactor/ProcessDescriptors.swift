package enum ProcessDescriptors {
    /// Raises this process's limit of descriptors to the system's maximum, and enlarges the kernel's table of
    /// descriptors. The program calls ``raiseLimit()`` early, while it has few threads.
    ///
    /// - Returns: the new limit.
    package static func raiseLimit() -> Int {
        let limit = Int(clamping: System.raiseDescriptorLimit())
        System.growDescriptorTable(to: min(limit, roomAtOnce))
        return limit
    }

    /// The number of descriptors for which the kernel's table is enlarged at the start of the daemon. The enlarged
    /// kernel table of descriptors uses one megabyte.
    private static let roomAtOnce = 1 << 17

    /// The process id of this process. The environment variables of a socket handover contain the process id.
    package static var owner: Int32 { System.process }
}
