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

    /// The results that the engine handles next.
    package enum Work {
        case output(TransactionOutput)
        /// Messages whose deliveries to phones have ended.
        case deliveries([EndedDelivery])
        /// Calls that must be forwarded to another URI, because no phone was found.
        case forwards([ProxiedRequest])
        /// Calls whose next devices must begin to ring.
        case turns([ProxiedRequest])
    }

    /// Removes and returns the results to handle next; `nil` if nothing is unsettled. While transactions have outputs,
    /// everything else waits. Ended deliveries come before forwards, and forwards before turns.
    package mutating func takeNext() -> Work? {
        if next < outputs.count {
            defer { next += 1 }
            // The output is moved out of the array to avoid a copy.
            return .output(exchange(&outputs[next], with: .strayResponse))
        }
        if next > 0 {
            outputs.removeAll(keepingCapacity: true)
            next = 0
        }
        if !deliveries.isEmpty { return .deliveries(exchange(&deliveries, with: [])) }
        if !forwards.isEmpty { return .forwards(exchange(&forwards, with: [])) }
        return turns.isEmpty ? nil : .turns(exchange(&turns, with: []))
    }

    // MARK: What happened

    /// Notes that a message's delivery to a phone has ended.
    package mutating func append(_ delivery: EndedDelivery) { deliveries.append(delivery) }

    /// Notes that a call must be forwarded to another URI, because no phone was found.
    package mutating func append(forwardOf call: ProxiedRequest) { forwards.append(call) }

    /// Notes that a fork has ordered to let the next devices of its call ring.
    package mutating func append(turnOf call: ProxiedRequest) { turns.append(call) }
}
