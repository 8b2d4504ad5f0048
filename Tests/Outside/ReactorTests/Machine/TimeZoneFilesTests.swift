import Reactor
import Testing
import Timekeeping

@Suite("Files of the time zone database")
struct TimeZoneFilesTests {
    @Test(arguments: [
        "", "/etc/passwd", "../../../etc/passwd", "Europe/../Berlin", "Europe//Berlin", "Europe/", "/Europe/Berlin",
        ".", "..", "Europe/Berlin\0", "Europe/Ber lin", "Europe\\Berlin", "1", "+5", "Ünix",
        String(repeating: "a", count: 65),
    ])
    func `a text that is no name of a zone opens no file`(name: String) {
        #expect(!TimeZoneFiles.isName(name))
        #expect(TimeZoneFiles.offsets(of: name) == nil)
    }

    @Test(arguments: ["Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "America/Port-au-Prince", "UTC"])
    func `names of zones are accepted`(name: String) { #expect(TimeZoneFiles.isName(name)) }

    @Test func `UTC needs no file, and an unknown zone or a folder is no zone`() {
        #expect(TimeZoneFiles.offsets(of: "UTC") == .utc)
        #expect(TimeZoneFiles.offsets(of: "Europe/Atlantis") == nil)
        #expect(TimeZoneFiles.offsets(of: "Europe") == nil)
    }

    /// A machine without the package tzdata has no file to read.
    @Test func `Berlin has summer time, now and in later years`() {
        guard let zone = TimeZoneFiles.offsets(of: "Europe/Berlin") else { return }
        // 2026-01-15 and 2026-07-15, and the same days in 2060.
        #expect(zone.offset(at: UnixTime(seconds: 1_768_478_400)) == 3600)
        #expect(zone.offset(at: UnixTime(seconds: 1_784_116_800)) == 7200)
        #expect(zone.offset(at: UnixTime(seconds: 2_841_350_400)) == 3600)
        #expect(zone.offset(at: UnixTime(seconds: 2_857_075_200)) == 7200)
    }
}
