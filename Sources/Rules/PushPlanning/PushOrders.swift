package import PushDelivery
package import Registration

/// Receives the orders of ``PushLedger``; the orders must be executed in sequence.
package protocol PushOrders {
    /// Send a push to its push provider.
    mutating func send(_ push: PushDispatcher.Transmission)
    /// Make a credential for a push provider.
    mutating func makeCredential(_ order: PushCredentials.Order)
    /// Write the given records into the timeline.
    mutating func trace(_ changes: [TimelineChange])
    /// Write changes of a user's missed calls, immediately into the journal and soon into the store.
    mutating func missedCallsChanged(_ changes: [BucketChange], of aor: AddressOfRecord)
}
