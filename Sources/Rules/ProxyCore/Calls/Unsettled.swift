import Collections
import SIPTransactions

/// What transactions and forks have told, in its order, until the engine has brought it to whom it concerns.
struct Unsettled {
    var outputs: [TransactionOutput] = []
    /// The outputs before this index have been carried out.
    private var next = 0
    /// What the transactions put out just now. The array stays, so that its memory is used again.
    var latest: [TransactionOutput] = []
    private var deliveries: [EndedDelivery] = []

    mutating func takeOutput() -> TransactionOutput? {
        guard next < outputs.count else {
            if next > 0 {
                outputs.removeAll(keepingCapacity: true)
                next = 0
            }
            return nil
        }
        defer { next += 1 }
        // Moved out and not copied.
        return exchange(&outputs[next], with: .strayResponse)
    }

    /// A message's way to a phone has come to something.
    mutating func append(_ delivery: EndedDelivery) { deliveries.append(delivery) }

    mutating func takeDeliveries() -> [EndedDelivery] { deliveries.isEmpty ? [] : exchange(&deliveries, with: []) }
}
