import Bytes
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// 2026-02-28T23:59:59.042Z.
private let date = UnixTime(milliseconds: 1_772_323_199_042)

@Suite("Log lines")
struct LogTests {
    private let sink = MemoryLogSink()

    private func log(_ level: LogLevel = .debug, _ format: LogFormat = .text) -> Log {
        Log(level: level, format: format, sink: sink) { date }
    }

    @Test func `a line has time, level, message and fields in order`() {
        log().warning(
            "push refused",
            [
                .provider: "apns", .status: 410, .aor: .bytes(ByteString("sip:bob@example.org")), .outcome: false,
                .duration: .duration(.microseconds(1_234_567)), .reason: "Bad \"Device\"",
            ])
        #expect(
            sink.lines == [
                "2026-02-28T23:59:59.042Z warning push refused provider=apns status=410 aor=sip:bob@example.org "
                    + "outcome=false duration=1234.567ms reason=\"Bad \\\"Device\\\"\"\n"
            ])
    }

    @Test func `JSON has the same members`() {
        log(.info, .json).info(
            "call held",
            [.count: -3, .aor: .bytes(ByteString([0x22, 0x5C, 0xFF, 0x0A])), .duration: .duration(.milliseconds(-5))])
        #expect(
            sink.lines == [
                #"{"time":"2026-02-28T23:59:59.042Z","level":"info","message":"call held","count":-3,"aor":"\"\\\\\\xff\\n","duration":-0.005000}"#
                    + "\n"
            ])
    }

    @Test(arguments: [(LogLevel.error, "<3>"), (.warning, "<4>"), (.notice, "<5>"), (.info, "<6>"), (.debug, "<7>")])
    func `for journald a line begins with its priority`(level: LogLevel, prefix: String) {
        let log = log(.debug, .journal)
        switch level {
        case .error: log.error("started")
        case .warning: log.warning("started")
        case .notice: log.notice("started")
        case .info: log.info("started")
        case .debug: log.debug("started")
        }
        #expect(sink.lines == [prefix + "started\n"])
    }

    @Test func `levels below the threshold are silent and cost no fields`() {
        let log = log(.notice)
        var evaluated = 0
        func fields() -> KeyValuePairs<LogKey, LogValue> {
            evaluated += 1
            return [.count: 1]
        }
        log.info("not written", fields())
        log.notice("written", fields())
        #expect(evaluated == 1)
        #expect(sink.lines.count == 1)
        log.setLevel(.error)
        log.warning("not written", fields())
        #expect(evaluated == 1)
        #expect(!log.isEnabled(.warning))
        #expect(!Log.silent.isEnabled(.error))
    }

    @Test(
        arguments: [
            ("", #""""#), ("a b", #""a b""#), ("a=b", #""a=b""#), ("Zoë Иван", #""Zoë Иван""#),
            ("a\r\nSIP/2.0 200", #""a\r\nSIP/2.0 200""#), ("\u{1B}[2J", #""\u{1b}[2J""#), ("\u{0}", #""\u{0}""#),
            ("\u{202E}x\u{200B}\u{2028}\u{85}\u{7F}", #""\u{202e}x\u{200b}\u{2028}\u{85}\u{7f}""#),
            (#"\x41"#, #""\\x41""#),
        ])
    func `text from a peer cannot leave its field`(text: String, expected: String) {
        log().info("m", [.reason: .bytes(ByteString(text))])
        #expect(sink.lines == ["2026-02-28T23:59:59.042Z info m reason=\(expected)\n"])
    }

    @Test(
        arguments: [
            ([0xFF, 0x41], #""\xffA""#), ([0xC3], #""\xc3""#), ([0xE2, 0x82, 0x41], #""\xe2\x82A""#),
            ([0xED, 0xA0, 0x80], #""\xed\xa0\x80""#), ([0xC0, 0xAF], #""\xc0\xaf""#),
        ] as [([UInt8], String)])
    func `bytes that are not UTF-8 are shown in hex`(bytes: [UInt8], expected: String) {
        log().info("m", [.reason: .bytes(ByteString(bytes))])
        #expect(sink.lines == ["2026-02-28T23:59:59.042Z info m reason=\(expected)\n"])
    }

    @Test(arguments: LogFormat.allCases)
    func `random bytes leave one printable line`(format: LogFormat) {
        var random = SeededGenerator()
        for _ in 0..<200 {
            let bytes = (0..<Int.random(in: 0..<200, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            log(.debug, format).debug("m", [.reason: .bytes(ByteString(bytes)), .count: 1])
        }
        for line in sink.lines {
            #expect(line.unicodeScalars.dropLast().allSatisfy { $0.value >= 0x20 && $0.value != 0x7F })
            #expect(!line.unicodeScalars.contains("\u{FFFD}"))
        }
        #expect(sink.lines.count == 200)
    }

    @Test(arguments: LogFormat.allCases)
    func `a long value is cut and a long line loses its last fields`(format: LogFormat) {
        let long = LogValue.bytes(ByteString([UInt8](repeating: UInt8(ascii: "x"), count: 5000)))
        let log = log(.debug, format)
        log.debug("m", [.reason: long, .count: 7])
        log.debug("m", [.reason: long, .aor: long, .user: long, .target: long, .count: 7])
        #expect(sink.lines[0].contains("xx…\""))
        #expect(sink.lines[0].contains("7"))
        #expect(sink.lines.allSatisfy { $0.utf8.count <= 4096 })
        #expect(sink.lines[1].hasSuffix(format == .json ? ",\"truncated\":true}\n" : " …\n"))
    }

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"), (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] as [(Int64, String)])
    func `dates follow the calendar`(milliseconds: Int64, expected: String) {
        Log(level: .info, sink: sink) { UnixTime(milliseconds: milliseconds) }.info("m")
        #expect(sink.lines == [expected + " info m\n"])
    }

    @Test func `secrets show their start and their length`() {
        let token = String(repeating: "abcdef01", count: 8)
        log().info("m", [.token: .redacted(ByteString(token)), .reason: .redacted(Redacted("hunter2"))])
        #expect(sink.lines == ["2026-02-28T23:59:59.042Z info m token=\"abcd…(64)\" reason=\"…(7)\"\n"])
        #expect(!String(reflecting: Redacted(token)).contains("abcdef"))
    }
}

@Suite("Log rate limit")
struct LogRateLimitTests {
    private let start = Instant(nanoseconds: 5)

    @Test func `after the burst, lines are omitted until the interval ends, and their number is logged`() {
        var limit = LogRateLimit(burst: 2, per: .seconds(10))
        #expect(limit.admit(now: start) == 0)
        #expect(limit.admit(now: start) == 0)
        #expect(limit.admit(now: start + .seconds(9)) == nil)
        #expect(limit.admit(now: start + .milliseconds(9999)) == nil)
        #expect(limit.admit(now: start + .seconds(10)) == 2)
        #expect(limit.admit(now: start + .seconds(11)) == 0)
        #expect(limit.admit(now: start + .seconds(12)) == nil)
    }
}
