/// How many files and sockets this process may have open.
package enum ProcessDescriptors {
    /// Asks for as many as the system allows, and for room for them. To be called early, while there are few threads.
    ///
    /// - Returns: how many there may be from now on.
    package static func raiseLimit() -> Int {
        let limit = Int(clamping: System.raiseDescriptorLimit())
        System.growDescriptorTable(to: min(limit, roomAtOnce))
        return limit
    }

    /// A megabyte of the kernel's memory.
    private static let roomAtOnce = 1 << 17

    /// The number of this process, by which others say that they mean it.
    package static var owner: Int32 { System.process }
}
