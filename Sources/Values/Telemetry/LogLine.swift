import Bytes
import Timekeeping

/// Formats one event as one line of printable UTF-8, even if a peer sent invalid bytes.
struct LogLine {
    /// The maximum length of a log line in bytes, below the 4,096 that a pipe accepts in one piece.
    static let limit = 4000
    /// The maximum length in bytes of a field's value.
    static let valueLimit = 1024

    private(set) var bytes: [UInt8] = []

    init(
        format: LogFormat, level: LogLevel, date: UnixTime, message: StaticString,
        fields: KeyValuePairs<LogKey, LogValue>
    ) {
        bytes.reserveCapacity(256)
        switch format {
        case .text:
            appendDate(date)
            append(" ")
            bytes.append(contentsOf: level.rawValue.utf8)
            append(" ")
            text(message, fields)
        case .journal:
            append("<")
            bytes.append(decimal: level.priority)
            append(">")
            text(message, fields)
        case .json:
            json(level, date, message, fields)
        }
        append("\n")
    }

    // MARK: Text

    private mutating func text(_ message: StaticString, _ fields: KeyValuePairs<LogKey, LogValue>) {
        append(message)
        for (key, value) in fields {
            let before = bytes.count
            append(" ")
            bytes.append(contentsOf: key.rawValue.utf8)
            append("=")
            switch value {
            case .text(let text): textValue(Array(text.utf8))
            case .bytes(let value): textValue(value.array)
            case .integer(let number): bytes.append(decimal: number)
            case .flag(let flag): append(flag ? "true" : "false")
            case .duration(let duration): appendMilliseconds(duration)
            case .redacted(let secret): textValue(Array(secret.description.utf8))
            }
            if cutBack(to: before, marker: " …") { return }
        }
    }

    private mutating func textValue(_ value: [UInt8]) {
        let isPlain = !value.isEmpty && value.allSatisfy { LogEscaping.isPlain($0) }
        guard !isPlain || value.count > Self.valueLimit else {
            bytes.append(contentsOf: value)
            return
        }
        append("\"")
        LogEscaping.append(value, atMost: Self.valueLimit, to: &bytes)
        append("\"")
    }

    // MARK: JSON

    private mutating func json(
        _ level: LogLevel, _ date: UnixTime, _ message: StaticString, _ fields: KeyValuePairs<LogKey, LogValue>
    ) {
        append("{\"time\":\"")
        appendDate(date)
        append("\",\"level\":\"")
        bytes.append(contentsOf: level.rawValue.utf8)
        append("\",\"message\":\"")
        append(message)
        append("\"")
        for (key, value) in fields {
            let before = bytes.count
            append(",\"")
            bytes.append(contentsOf: key.rawValue.utf8)
            append("\":")
            switch value {
            case .text(let text): jsonString(Array(text.utf8))
            case .bytes(let value): jsonString(value.array)
            case .integer(let number): bytes.append(decimal: number)
            case .flag(let flag): append(flag ? "true" : "false")
            case .duration(let duration): appendSeconds(duration)
            case .redacted(let secret): jsonString(Array(secret.description.utf8))
            }
            if cutBack(to: before, marker: ",\"truncated\":true") { break }
        }
        append("}")
    }

    /// Appends a text as a JSON string. The text is escaped as in the text format, and each `\` and `"` of the result
    /// is then escaped for JSON.
    private mutating func jsonString(_ value: [UInt8]) {
        var escaped: [UInt8] = []
        LogEscaping.append(value, atMost: Self.valueLimit, quote: false, to: &escaped)
        append("\"")
        for byte in escaped {
            if byte == UInt8(ascii: "\\") || byte == UInt8(ascii: "\"") { append("\\") }
            bytes.append(byte)
        }
        append("\"")
    }

    // MARK: Parts

    /// If the line is too long, cuts it back to `length`, and appends `marker`; returns whether it did.
    private mutating func cutBack(to length: Int, marker: StaticString) -> Bool {
        guard bytes.count > Self.limit else { return false }
        bytes.removeSubrange(length...)
        append(marker)
        return true
    }

    private mutating func append(_ text: StaticString) { bytes.append(text) }

    private mutating func appendMilliseconds(_ duration: Duration) {
        let microseconds = microseconds(duration)
        bytes.append(decimal: microseconds / 1000)
        append(".")
        appendPadded(Int64(microseconds % 1000), width: 3)
        append("ms")
    }

    /// Appends a duration in seconds, the unit of all times in JSON lines.
    private mutating func appendSeconds(_ duration: Duration) {
        let microseconds = microseconds(duration)
        bytes.append(decimal: microseconds / 1_000_000)
        append(".")
        appendPadded(Int64(microseconds % 1_000_000), width: 6)
    }

    /// The absolute value of a duration in microseconds; for a negative duration, a `-` is appended first.
    private mutating func microseconds(_ duration: Duration) -> UInt64 {
        let (seconds, attoseconds) = duration.components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000)
        let microseconds = overflow ? 0 : scaled.addingReportingOverflow(attoseconds / 1_000_000_000_000).partialValue
        if microseconds < 0 { append("-") }
        return microseconds.magnitude
    }

    /// Appends a date of ISO 8601 in UTC with milliseconds.
    private mutating func appendDate(_ date: UnixTime) {
        let civil = date.civil
        let time = civil.secondOfDay
        appendPadded(civil.year, width: 4)
        append("-")
        appendPadded(civil.month, width: 2)
        append("-")
        appendPadded(civil.day, width: 2)
        append("T")
        appendPadded(time / 3600, width: 2)
        append(":")
        appendPadded(time / 60 % 60, width: 2)
        append(":")
        appendPadded(time % 60, width: 2)
        append(".")
        appendPadded(date.milliseconds - date.seconds * 1000, width: 3)
        append("Z")
    }

    private mutating func appendPadded(_ value: Int64, width: Int) {
        var limit: Int64 = 10
        for _ in 1..<width {
            if value < limit { append("0") }
            limit *= 10
        }
        bytes.append(decimal: value)
    }
}
