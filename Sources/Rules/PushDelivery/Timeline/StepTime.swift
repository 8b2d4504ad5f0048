import Collections

/// The time of a step after the start of its timeline record, in 32 bits. The time of a step is exact to a microsecond
/// up to 35 minutes, and to a millisecond afterwards.
package struct StepTime: Hashable, Absentable, Sendable {
    /// The microseconds or, for a later time, the negative number of milliseconds.
    private let rawValue: Int32

    private init(rawValue: Int32) { self.rawValue = rawValue }

    /// The value for a missing step; no step has this value as its time.
    package static var absent: StepTime { StepTime(rawValue: .min) }

    /// A negative time becomes zero, because no step comes before the start of its record.
    package init(nanoseconds: Int64) {
        let microseconds = max(nanoseconds, 0) / 1000
        rawValue = Int32(exactly: microseconds) ?? -Int32(clamping: microseconds / 1000)
    }

    package init(milliseconds: Int32) { self.init(nanoseconds: Int64(milliseconds) * 1_000_000) }

    package var microseconds: Int64 { rawValue >= 0 ? Int64(rawValue) : -Int64(rawValue) * 1000 }

    package var milliseconds: Int32 { rawValue >= 0 ? rawValue / 1000 : -rawValue }
}
