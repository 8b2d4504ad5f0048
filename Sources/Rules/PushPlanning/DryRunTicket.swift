/// Identifies one dry run, by a number that the shell chose.
package struct DryRunTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}
