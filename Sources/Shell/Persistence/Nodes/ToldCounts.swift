import Timekeeping

/// The counts of limits that nodes exchange through the database: the form of a row, and which rows a node has read.
///
/// A node writes at most one row for each sign of life, with a number one higher than in its last row. Each other node
/// reads the rows after the last number that it has read. So each count is added once.
enum ToldCounts {
    /// The time in which counts matter, and after which rows are deleted.
    static let span: Duration = .seconds(60)

    /// The bytes of one count: the limit, the age in milliseconds, the number of events, and the key.
    private static let size = 15

    static func bytes(of counts: [SharedCount], aged more: Duration = .zero) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(counts.count * size)
        func add(_ number: UInt64, _ count: Int) {
            for place in stride(from: (count - 1) * 8, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: number >> place))
            }
        }
        for count in counts {
            add(UInt64(count.limit.rawValue), 1)
            add(UInt64(UInt16(clamping: (count.age + more).nanoseconds / 1_000_000)), 2)
            add(UInt64(UInt32(clamping: count.count)), 4)
            add(count.key, 8)
        }
        return bytes
    }

    /// Reads the counts of a row that a run of a node wrote before the given time. Limits that this version does not know are
    /// skipped.
    static func counts(in bytes: [UInt8], of run: UInt32, writtenBefore age: Duration) -> [SharedCount] {
        var counts: [SharedCount] = []
        var rest = bytes[...]
        while rest.count >= size {
            let record = rest.prefix(size)
            rest = rest.dropFirst(size)
            func number(_ range: Range<Int>) -> UInt64 {
                record.dropFirst(range.lowerBound).prefix(range.count).reduce(0) { $0 << 8 | UInt64($1) }
            }
            guard let limit = SharedCount.Limit(rawValue: UInt8(truncatingIfNeeded: number(0..<1))) else { continue }
            var count = SharedCount(
                limit, number(7..<15), count: Int(clamping: number(3..<7)),
                age: age + .milliseconds(Int64(clamping: number(1..<3))))
            count.run = run
            counts.append(count)
        }
        return counts
    }

    /// The last row that a node has read of each run of another node.
    struct Places {
        private var last: [Int64: (number: Int64, at: Instant)] = [:]

        var runs: [Int64] { Array(last.keys) }
        var numbers: [Int64] { last.values.map(\.number) }

        /// Notes that a row was read; returns false if the row was read before.
        mutating func read(_ number: Int64, of run: Int64, now: Instant) -> Bool {
            if let known = last[run], known.number >= number { return false }
            last[run] = (number, now)
            return true
        }

        /// Forgets runs whose rows are no longer in the database.
        mutating func prune(now: Instant) { last = last.filter { now - $0.value.at < ToldCounts.span * 2 } }
    }

    /// The rows of this node that the database has not confirmed yet.
    struct Unsent {
        struct Row {
            let number: Int64
            let counts: [SharedCount]
            let at: Instant
        }

        private(set) var rows: [Row] = []
        private var lastNumber: Int64 = 0
        private static let limit = 30

        /// Adds a row. If the database is away for long, the oldest rows are dropped.
        mutating func add(_ counts: [SharedCount], now: Instant) {
            lastNumber += 1
            rows.append(Row(number: lastNumber, counts: counts, at: now))
            if rows.count > Self.limit { rows.removeFirst() }
        }

        mutating func confirmed() { rows = [] }
    }
}
