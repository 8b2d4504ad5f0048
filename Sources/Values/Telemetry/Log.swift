import Synchronization
package import Timekeeping

/// Writes events to the log, each as one line. All copies of a ``Log`` share one level and one sink.
///
/// The message is a constant of the program. Values from outside the program belong in fields, whose values the log
/// escapes. Field values are computed only if the line is written.
package struct Log: Sendable {
    private let core: LogCore

    /// Makes a log.
    ///
    /// - Parameters:
    ///   - level: the log level; less important lines are not written.
    ///   - format: the format of the log lines.
    ///   - sink: receives the log lines.
    ///   - clock: reads the wall clock.
    package init(
        level: LogLevel, format: LogFormat = .text, sink: any LogSink, clock: @escaping @Sendable () -> UnixTime
    ) {
        core = LogCore(level: level, format: format, sink: sink, clock: clock)
    }

    /// A log that writes nothing.
    package static let silent = Log(core: LogCore.silent)

    private init(core: LogCore) { self.core = core }

    package func isEnabled(_ level: LogLevel) -> Bool { core.isEnabled(level) }

    /// Changes the level for all copies of the log.
    package func setLevel(_ level: LogLevel) { core.threshold.store(level.rank, ordering: .relaxed) }

    /// The number of lines that the sink has refused since the start.
    package var droppedLines: Int { core.droppedInTotal.load(ordering: .relaxed) }

    package func error(_ message: StaticString, _ fields: @autoclosure () -> KeyValuePairs<LogKey, LogValue> = [:]) {
        if core.isEnabled(.error) { core.write(.error, message, fields()) }
    }

    package func warning(_ message: StaticString, _ fields: @autoclosure () -> KeyValuePairs<LogKey, LogValue> = [:]) {
        if core.isEnabled(.warning) { core.write(.warning, message, fields()) }
    }

    package func notice(_ message: StaticString, _ fields: @autoclosure () -> KeyValuePairs<LogKey, LogValue> = [:]) {
        if core.isEnabled(.notice) { core.write(.notice, message, fields()) }
    }

    package func info(_ message: StaticString, _ fields: @autoclosure () -> KeyValuePairs<LogKey, LogValue> = [:]) {
        if core.isEnabled(.info) { core.write(.info, message, fields()) }
    }

    package func debug(_ message: StaticString, _ fields: @autoclosure () -> KeyValuePairs<LogKey, LogValue> = [:]) {
        if core.isEnabled(.debug) { core.write(.debug, message, fields()) }
    }
}

/// The state that all copies of a ``Log`` share.
private final class LogCore: Sendable {
    static let silent = LogCore(level: nil, format: .text, sink: NoSink()) { UnixTime(milliseconds: 0) }

    /// The rank of the least important level that is written.
    let threshold: Atomic<Int>
    let droppedInTotal = Atomic(0)
    /// The number of lines refused since the last line that reported refused lines.
    private let dropped = Atomic(0)
    private let format: LogFormat
    private let sink: any LogSink
    private let clock: @Sendable () -> UnixTime

    init(level: LogLevel?, format: LogFormat, sink: any LogSink, clock: @escaping @Sendable () -> UnixTime) {
        threshold = Atomic(level?.rank ?? -1)
        self.format = format
        self.sink = sink
        self.clock = clock
    }

    func isEnabled(_ level: LogLevel) -> Bool { level.rank <= threshold.load(ordering: .relaxed) }

    func write(_ level: LogLevel, _ message: StaticString, _ fields: KeyValuePairs<LogKey, LogValue>) {
        let date = clock()
        let unreported = dropped.exchange(0, ordering: .relaxed)
        if unreported > 0 {
            let note = LogLine(
                format: format, level: .warning, date: date,
                message: "log lines were dropped: the program that reads them is too slow",
                fields: [.count: .number(unreported)])
            if !sink.write(note.bytes) { dropped.wrappingAdd(unreported, ordering: .relaxed) }
        }
        let line = LogLine(format: format, level: level, date: date, message: message, fields: fields)
        if !sink.write(line.bytes) {
            dropped.wrappingAdd(1, ordering: .relaxed)
            droppedInTotal.wrappingAdd(1, ordering: .relaxed)
        }
    }
}

private struct NoSink: LogSink {
    func write(_ line: [UInt8]) -> Bool { true }
}
