package import Collections

/// The number of a transaction, as a ``Slab`` assigns it.
package protocol TransactionID: SerialID {}

extension TransactionID {
    /// The slot of the transaction in its slab.
    @inlinable package var slot: Int { Int(truncatingIfNeeded: rawValue & 0xff_ffff) }
}

/// The number of a server transaction. A table never reuses it.
package struct ServerTransactionID: TransactionID, Absentable, Sendable {
    package let rawValue: UInt64
    package static var absent: ServerTransactionID { ServerTransactionID(rawValue: 0) }

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Written by hand, because the synthesized version uses a witness table in other modules.
    @inlinable
    package static func == (left: ServerTransactionID, right: ServerTransactionID) -> Bool {
        left.rawValue == right.rawValue
    }
}

/// The number of a client transaction. A table never reuses it, and the Via branch contains it.
package struct ClientTransactionID: TransactionID, Absentable, Sendable {
    package let rawValue: UInt64
    package static var absent: ClientTransactionID { ClientTransactionID(rawValue: 0) }

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Written by hand, because the synthesized version uses a witness table in other modules.
    @inlinable
    package static func == (left: ClientTransactionID, right: ClientTransactionID) -> Bool {
        left.rawValue == right.rawValue
    }
}
