/// The number of one DNS look-up whose result the engine awaits.
package struct ResolutionTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}
