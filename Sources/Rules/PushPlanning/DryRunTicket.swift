/// The number that identifies one check of a push token.
package struct DryRunTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}
