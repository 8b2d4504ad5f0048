/// How many files and sockets this process may have open.
package enum ProcessDescriptors {
    /// Asks for as many as the system allows.
    ///
    /// - Returns: how many there may be from now on.
    package static func raiseLimit() -> Int { Int(clamping: System.raiseDescriptorLimit()) }

    /// The number of this process, by which others say that they mean it.
    package static var owner: Int32 { System.process }
}
