import Collections

/// The number of a server transaction: given once by a table, never again.
package struct ServerTransactionID: SerialID, Sendable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// The number of a client transaction: given once by a table, never again; the Via branch carries it.
package struct ClientTransactionID: SerialID, Sendable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) { self.rawValue = rawValue }
}
