package import Collections

/// A number that a ``Slab`` gives.
package protocol TransactionID: SerialID {}

extension TransactionID {
    /// Where the transaction stands among those under way.
    @inlinable package var slot: Int { Int(truncatingIfNeeded: rawValue & 0xff_ffff) }
}

/// The number of a server transaction: given once by a table, never again.
package struct ServerTransactionID: TransactionID, Absentable, Sendable {
    package let rawValue: UInt64
    package static var absent: ServerTransactionID { ServerTransactionID(rawValue: 0) }

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Written out, since what Swift makes of it for other modules goes through a table of witnesses.
    @inlinable
    package static func == (left: ServerTransactionID, right: ServerTransactionID) -> Bool {
        left.rawValue == right.rawValue
    }
}

/// The number of a client transaction: given once by a table, never again; the Via branch carries it.
package struct ClientTransactionID: TransactionID, Absentable, Sendable {
    package let rawValue: UInt64
    package static var absent: ClientTransactionID { ClientTransactionID(rawValue: 0) }

    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Written out, since what Swift makes of it for other modules goes through a table of witnesses.
    @inlinable
    package static func == (left: ClientTransactionID, right: ClientTransactionID) -> Bool {
        left.rawValue == right.rawValue
    }
}
