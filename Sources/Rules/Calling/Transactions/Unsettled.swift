import Collections
package import SIPTransactions

/// The results of transactions and forks that the engine has not handled yet, in the order in which they came.
package struct Unsettled {
    var outputs: [TransactionOutput] = []
    /// The index of the first output of the transactions that was not handled yet.
    private var next = 0
    /// The outputs of the last change of the transactions; the array is kept to reuse its memory.
    var latest: [TransactionOutput] = []
    private var deliveries: [EndedDelivery] = []
    private var forwards: [ProxiedRequest] = []

    package mutating func takeOutput() -> TransactionOutput? {
        guard next < outputs.count else {
            if next > 0 {
                outputs.removeAll(keepingCapacity: true)
                next = 0
            }
            return nil
        }
        defer { next += 1 }
        // The output is moved out of the array, because a copy would cost time.
        return exchange(&outputs[next], with: .strayResponse)
    }

    /// Notes that an attempt to deliver a message to a phone has ended.
    package mutating func append(_ delivery: EndedDelivery) { deliveries.append(delivery) }

    /// Notes that a fork has ordered to forward its call to another URI, because no phone was found.
    package mutating func append(forwardOf call: ProxiedRequest) { forwards.append(call) }

    package mutating func takeForwards() -> [ProxiedRequest] { forwards.isEmpty ? [] : exchange(&forwards, with: []) }

    package mutating func takeDeliveries() -> [EndedDelivery] {
        deliveries.isEmpty ? [] : exchange(&deliveries, with: [])
    }
}
