import OTLP

/// Decides which calls get spans: a share of all calls, and each failed call.
///
/// The spans of a call outside the sample wait until the end of the call shows whether it failed.
struct SpanSampling {
    private let oneIn: UInt64
    /// The spans that wait, by the root span of their call. When the newer table of spans is full, the older table is
    /// dropped.
    private var newer: [SpanID: [TraceSpan]] = [:]
    private var older: [SpanID: [TraceSpan]] = [:]
    private var newerCount = 0
    /// The root spans of failed calls; later spans of these calls are kept too. A new root span overwrites an earlier
    /// one in the table, so the table never grows.
    private var failed: [UInt64] = []

    /// The maximum number of spans in a table.
    static let limit = 4096
    private static let remembered = 1024

    init(oneIn: Int) {
        self.oneIn = UInt64(max(1, oneIn))
        if oneIn > 1 { failed = [UInt64](repeating: 0, count: Self.remembered) }
    }

    /// The number of calls whose spans wait.
    var waiting: Int { newer.count + older.count }

    /// Whether the sample has the call with the given trace. All nodes with the same setting choose spans of the same
    /// calls.
    func has(_ trace: TraceID) -> Bool { oneIn == 1 || trace.low % oneIn == 0 }

    /// Returns the spans to send now: the given spans; if they must wait, none.
    mutating func take(_ spans: [TraceSpan], of root: SpanID) -> [TraceSpan] {
        guard let first = spans.first else { return [] }
        if has(first.trace) || failed[Self.place(root)] == root.rawValue { return spans }
        if newerCount + spans.count > Self.limit { (older, newer, newerCount) = (newer, [:], 0) }
        newer[root, default: []] += spans
        newerCount += spans.count
        return []
    }

    /// The spans to send after the end of the call.
    mutating func takeRoot(_ root: TraceSpan, isFailed: Bool) -> [TraceSpan] {
        if has(root.trace) { return [root] }
        let recent = newer.removeValue(forKey: root.id) ?? []
        newerCount -= recent.count
        let waiting = (older.removeValue(forKey: root.id) ?? []) + recent
        guard isFailed else { return [] }
        failed[Self.place(root.id)] = root.id.rawValue
        return [root] + waiting
    }

    private static func place(_ root: SpanID) -> Int { Int(truncatingIfNeeded: root.rawValue) & (remembered - 1) }
}
