import Addressing

/// Finds the client transactions of a flow, for example when the connection of the flow closes. The transactions of one
/// flow are in a linked list, whose links are in the transaction records.
struct ClientsByFlow: Sendable {
    private var heads = [Int32](repeating: -1, count: 4096)

    mutating func insert(_ slot: Int, on flow: Flow, in records: inout [ClientRecord]) {
        let chain = chain(of: flow)
        let head = heads[chain]
        records[slot].previousOnFlow = -1
        records[slot].nextOnFlow = head
        if head >= 0 { records[Int(head)].previousOnFlow = Int32(truncatingIfNeeded: slot) }
        heads[chain] = Int32(truncatingIfNeeded: slot)
    }

    mutating func remove(_ slot: Int, on flow: Flow, in records: inout [ClientRecord]) {
        let next = records[slot].nextOnFlow
        let previous = records[slot].previousOnFlow
        if previous >= 0 { records[Int(previous)].nextOnFlow = next } else { heads[chain(of: flow)] = next }
        if next >= 0 { records[Int(next)].previousOnFlow = previous }
    }

    func slots(on flow: Flow, in records: [ClientRecord]) -> [Int] {
        var slots: [Int] = []
        var slot = heads[chain(of: flow)]
        while slot >= 0 {
            if records[Int(slot)].flow == flow { slots.append(Int(slot)) }
            slot = records[Int(slot)].nextOnFlow
        }
        return slots
    }

    /// The index of the list that contains a flow. The index is a hash without a secret key. An attacker could make a
    /// list long, but a long list costs time only when a flow fails.
    private func chain(of flow: Flow) -> Int {
        var mixed = flow.connection &* 0x9e37_79b9_7f4a_7c15 ^ flow.remote.address.low
        mixed ^= flow.remote.address.high &+ UInt64(flow.remote.port) << 40
        mixed = (mixed ^ mixed >> 31) &* 0xbf58_476d_1ce4_e5b9
        return Int(mixed >> 52)
    }
}
