import Collections
package import SIPTransactions

/// Events of transactions and forks, in order, until the engine has handled them.
package struct Unsettled {
    var outputs: [TransactionOutput] = []
    /// The outputs before this index have been handled.
    private var next = 0
    /// The latest outputs of the transactions. The array is kept, so that its memory is reused.
    var latest: [TransactionOutput] = []
    private var deliveries: [EndedDelivery] = []

    package mutating func takeOutput() -> TransactionOutput? {
        guard next < outputs.count else {
            if next > 0 {
                outputs.removeAll(keepingCapacity: true)
                next = 0
            }
            return nil
        }
        defer { next += 1 }
        // The output is moved out, not copied.
        return exchange(&outputs[next], with: .strayResponse)
    }

    /// The delivery of a message to a phone has ended.
    package mutating func append(_ delivery: EndedDelivery) { deliveries.append(delivery) }

    package mutating func takeDeliveries() -> [EndedDelivery] {
        deliveries.isEmpty ? [] : exchange(&deliveries, with: [])
    }
}
