/// Identifies one write to the store for whose result the engine waits.
package struct CommitTicket: Hashable, Sendable {
    /// The part of the engine that waits for a write to the store.
    package enum Owner: Hashable, Sendable {
        case registrar
        case messages
    }

    package let owner: Owner
    package let number: UInt64

    package init(_ number: UInt64) { self.init(number, of: .registrar) }

    package init(_ number: UInt64, of owner: Owner) {
        self.owner = owner
        self.number = number
    }
}
