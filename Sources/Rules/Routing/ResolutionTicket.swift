/// Identifies one look-up that the engine waits for.
package struct ResolutionTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}
