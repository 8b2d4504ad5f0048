/// The start of the monotonic clock in nanoseconds since 1970.
///
/// Two measurements of the start differ by some nanoseconds. All spans of a call use one measurement, so that no span
/// starts before its parent.
struct ClockStart {
    private var known: Int64

    /// The minimum difference in nanoseconds that shows that the wall clock was set.
    private static let tolerance: UInt64 = 1_000_000

    init(_ measured: Int64) { known = measured }

    /// The earlier measurement, unless the wall clock was set since.
    mutating func value(measured: Int64) -> Int64 {
        let (difference, overflow) = measured.subtractingReportingOverflow(known)
        if overflow || difference.magnitude > Self.tolerance { known = measured }
        return known
    }
}
