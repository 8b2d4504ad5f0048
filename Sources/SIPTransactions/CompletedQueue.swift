import Timekeeping

/// Answered non-INVITE server transactions in the order they were answered, which is also the order in which their
/// timer J fires: a ring instead of one timer each.
struct CompletedQueue: Sendable {
    struct Entry: Sendable {
        let id: ServerTransactionID
        let until: Instant
    }

    private var entries: [Entry] = []
    private var head = 0
    private(set) var count = 0

    var first: Entry? { count > 0 ? entries[head] : nil }

    mutating func append(_ entry: Entry) {
        if count == entries.count { grow(filler: entry) }
        entries[(head + count) & (entries.count - 1)] = entry
        count += 1
    }

    mutating func removeFirst() {
        guard count > 0 else { return }
        head = (head + 1) & (entries.count - 1)
        count -= 1
    }

    private mutating func grow(filler: Entry) {
        let ordered = (0..<count).map { entries[(head + $0) & (entries.count - 1)] }
        let size = max(entries.count * 2, 64)
        entries = ordered + repeatElement(filler, count: size - count)
        head = 0
    }
}
