import Collections
package import SIPTransactions

/// The results of transactions and forks that the engine has not handled yet, oldest first.
package struct Unsettled {
    var outputs: [TransactionOutput] = []
    /// The index of the first transaction output that the engine has not handled yet.
    private var next = 0
    /// The outputs of the last change of the transactions; the array is kept to reuse its memory.
    var latest: [TransactionOutput] = []
    private var deliveries: [EndedDelivery] = []
    private var forwards: [ProxiedRequest] = []
    private var turns: [ProxiedRequest] = []

    package mutating func takeOutput() -> TransactionOutput? {
        guard next < outputs.count else {
            if next > 0 {
                outputs.removeAll(keepingCapacity: true)
                next = 0
            }
            return nil
        }
        defer { next += 1 }
        // The output is moved out of the array to avoid a copy.
        return exchange(&outputs[next], with: .strayResponse)
    }

    /// Notes that a message's delivery to a phone has ended.
    package mutating func append(_ delivery: EndedDelivery) { deliveries.append(delivery) }

    /// Notes that a call must be forwarded to another URI, because no phone was found.
    package mutating func append(forwardOf call: ProxiedRequest) { forwards.append(call) }

    package mutating func takeForwards() -> [ProxiedRequest] { forwards.isEmpty ? [] : exchange(&forwards, with: []) }

    /// Notes that a fork has ordered to let the next devices of its call ring.
    package mutating func append(turnOf call: ProxiedRequest) { turns.append(call) }

    package mutating func takeTurns() -> [ProxiedRequest] { turns.isEmpty ? [] : exchange(&turns, with: []) }

    package mutating func takeDeliveries() -> [EndedDelivery] {
        deliveries.isEmpty ? [] : exchange(&deliveries, with: [])
    }
}
