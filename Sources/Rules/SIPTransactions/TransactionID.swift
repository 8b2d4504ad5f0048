package import Collections

/// The id of a transaction, which a ``Slab`` assigns.
package protocol TransactionID: SerialID {}

extension TransactionID {
    /// The index of the transaction's slot in its slab.
    @inlinable package var slot: Int { Int(truncatingIfNeeded: rawValue & 0xff_ffff) }
}

/// The id of a server transaction.
package struct ServerTransactionID: TransactionID, Absentable, Sendable {
    package let rawValue: UInt64
    package static var absent: ServerTransactionID { ServerTransactionID(rawValue: 0) }

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Compares two ids of server transactions. The compiler's own comparison would be slow in other modules, because
    /// it uses a witness table.
    @inlinable
    package static func == (left: ServerTransactionID, right: ServerTransactionID) -> Bool {
        left.rawValue == right.rawValue
    }
}

/// The id of a client transaction; the transaction's Via branch contains the id.
package struct ClientTransactionID: TransactionID, Absentable, Sendable {
    package let rawValue: UInt64
    package static var absent: ClientTransactionID { ClientTransactionID(rawValue: 0) }

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Compares two ids of client transactions. The compiler's own comparison would be slow in other modules, because
    /// it uses a witness table.
    @inlinable
    package static func == (left: ClientTransactionID, right: ClientTransactionID) -> Bool {
        left.rawValue == right.rawValue
    }
}
