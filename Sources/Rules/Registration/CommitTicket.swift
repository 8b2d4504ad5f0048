/// Identifies a write to the store whose result the engine waits for.
package struct CommitTicket: Hashable, Sendable {
    /// The part of the engine that waits for the commit.
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
