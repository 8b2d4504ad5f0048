/// The number of one write to the store whose result the engine awaits.
package struct CommitTicket: Hashable, Sendable {
    /// The part of the engine that awaits a write to the store.
    package enum Owner: Hashable, Sendable {
        case registrar
        case messages
        /// The notices for other nodes, which follow the commit of a refreshed contact.
        case nodes
    }

    package let owner: Owner
    package let number: UInt64

    package init(_ number: UInt64) { self.init(number, of: .registrar) }

    package init(_ number: UInt64, of owner: Owner) {
        self.owner = owner
        self.number = number
    }
}
