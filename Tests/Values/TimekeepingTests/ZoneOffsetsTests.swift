import Testing
import Timekeeping

/// Writes files of the time zone database (RFC 8536).
private struct ZoneFile {
    var changes: [(at: Int64, kind: UInt8)] = []
    var offsets: [Int32] = [0]
    var footer = ""
    var version = UInt8(ascii: "2")

    var bytes: [UInt8] { block(isOld: true) + block(isOld: false) + [10] + Array(footer.utf8) + [10] }

    private func block(isOld: Bool) -> [UInt8] {
        var out = Array("TZif".utf8) + [version] + [UInt8](repeating: 0, count: 15)
        let counts = [0, 0, 0, isOld ? 0 : changes.count, isOld ? 1 : offsets.count, 4]
        for count in counts { out += Self.big(Int64(count), 4) }
        if !isOld {
            for change in changes { out += Self.big(change.at, 8) }
            out += changes.map(\.kind)
        }
        for offset in isOld ? [0] : offsets { out += Self.big(Int64(offset), 4) + [0, 0] }
        return out + Array("XYZ".utf8) + [0]
    }

    private static func big(_ number: Int64, _ count: Int) -> [UInt8] {
        (0..<count).reversed().map { UInt8(truncatingIfNeeded: number >> (8 * Int64($0))) }
    }
}

@Suite("Offsets of time zones")
struct ZoneOffsetsTests {
    /// 2026-01-15 12:00 UTC, 2026-07-15 12:00 UTC.
    private static let (winter, summer) = (UnixTime(seconds: 1_768_478_400), UnixTime(seconds: 1_784_116_800))

    @Test func `the offset is the one of the last change`() throws {
        let file = ZoneFile(changes: [(1000, 1), (2000, 0)], offsets: [3600, 7200])
        let zone = try #require(ZoneOffsets(file: file.bytes))
        #expect(
            [0, 999, 1000, 1999, 2000, 1 << 40].map { zone.offset(at: UnixTime(seconds: $0)) } == [
                3600, 3600, 7200, 7200, 3600, 3600,
            ])
    }

    @Test(
        arguments: [
            ("CET-1CEST,M3.5.0,M10.5.0/3", 3600, 7200), ("NZST-12NZDT,M9.5.0,M4.1.0/3", 46_800, 43_200),
            ("<+0330>-3:30", 12_600, 12_600), ("EST5EDT,M3.2.0,M11.1.0", -18_000, -14_400),
            ("XXX0YYY-2,J60,J300", 0, 7200), ("XXX0YYY,59,299", 0, 3600), ("UTC0", 0, 0),
        ] as [(String, Int64, Int64)])
    func `after the last change the yearly rule counts`(footer: String, winter: Int64, summer: Int64) throws {
        let zone = try #require(ZoneOffsets(file: ZoneFile(footer: footer).bytes))
        #expect(zone.offset(at: Self.winter) == winter)
        #expect(zone.offset(at: Self.summer) == summer)
    }

    @Test func `summer time in Berlin begins and ends at one o'clock UTC`() throws {
        let zone = try #require(ZoneOffsets(file: ZoneFile(footer: "CET-1CEST,M3.5.0,M10.5.0/3").bytes))
        // 2026-03-29 and 2026-10-25, each at 01:00 UTC.
        for (change, before, after) in [(1_774_746_000, 3600, 7200), (1_792_890_000, 7200, 3600)]
            as [(Int64, Int64, Int64)]
        {
            #expect(zone.offset(at: UnixTime(seconds: change - 1)) == before)
            #expect(zone.offset(at: UnixTime(seconds: change)) == after)
        }
    }

    @Test(arguments: [
        "CET", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-999", "", "-1", "CET-1CEST,M3.5.0,M10.5.0x",
    ])
    func `a malformed rule for later years is left out`(footer: String) throws {
        let zone = try #require(ZoneOffsets(file: ZoneFile(offsets: [1800], footer: footer).bytes))
        #expect(zone.offset(at: Self.summer) == 1800)
    }

    @Test func `bytes that are no file of the database are refused`() {
        let good = ZoneFile(changes: [(1000, 1)], offsets: [0, 60]).bytes
        #expect(ZoneOffsets(file: good) != nil)
        for count in 0..<good.count - 2 { #expect(ZoneOffsets(file: Array(good.prefix(count))) == nil, "\(count)") }
        #expect(ZoneOffsets(file: ZoneFile(changes: [(1000, 7)]).bytes) == nil)
        #expect(ZoneOffsets(file: ZoneFile(changes: [(1000, 0), (999, 0)]).bytes) == nil)
        #expect(ZoneOffsets(file: ZoneFile(offsets: [.max]).bytes) == nil)
        #expect(ZoneOffsets(file: ZoneFile(offsets: []).bytes) == nil)
        #expect(ZoneOffsets(file: ZoneFile(version: 0).bytes) == nil)
        #expect(ZoneOffsets(file: [UInt8](repeating: 0xff, count: 200)) == nil)
        var huge = good
        for index in 20..<44 { huge[index] = 0xff }
        #expect(ZoneOffsets(file: huge) == nil)
    }
}
