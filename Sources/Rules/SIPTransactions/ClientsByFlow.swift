import Addressing

/// Finds the client transactions of each flow, for example when a connection closes. The lists are linked through the
/// transaction records themselves.
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

    /// The index of the list for a flow: a hash that need not be secret, because a long list costs time only when one
    /// of its flows fails.
    private func chain(of flow: Flow) -> Int {
        var mixed = flow.connection &* 0x9e37_79b9_7f4a_7c15 ^ flow.remote.address.low
        mixed ^= flow.remote.address.high &+ UInt64(flow.remote.port) << 40
        mixed = (mixed ^ mixed >> 31) &* 0xbf58_476d_1ce4_e5b9
        return Int(mixed >> 52)
    }
}
