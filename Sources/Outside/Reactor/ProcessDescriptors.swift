/// The limit of open files and sockets of this process.
package enum ProcessDescriptors {
    /// Raises the limit of descriptors to the maximum that the system allows, and grows the kernel's table accordingly.
    /// Call it early, while few threads exist.
    ///
    /// - Returns: the limit from now on.
    package static func raiseLimit() -> Int {
        let limit = Int(clamping: System.raiseDescriptorLimit())
        System.growDescriptorTable(to: min(limit, roomAtOnce))
        return limit
    }

    /// The number of descriptors for which the kernel's table is grown at once. The table then takes a megabyte.
    private static let roomAtOnce = 1 << 17

    /// The number of this process. Environment variables for socket handover name it.
    package static var owner: Int32 { System.process }
}
