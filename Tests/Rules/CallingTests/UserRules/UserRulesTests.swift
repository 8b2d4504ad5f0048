import Addressing
import Bytes
import Calling
import ProxyPolicy
import Registration
import Testing
import Timekeeping

@Suite("Rules of users")
struct UserRulesTests {
    private static let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))
    private static let desk = RuledDevice(id: DeviceID(rawValue: 7), label: "", canBeWoken: false)
    private static let mobile = RuledDevice(id: DeviceID(rawValue: 8), label: "urn:uuid:8", canBeWoken: true)

    @Test func `the first delay that names a device counts`() {
        var rules = CallRules()
        rules.delays = [
            .init(.one(DeviceID(rawValue: 8), label: ""), milliseconds: 3000), .init(.push, milliseconds: 10_000),
        ]
        #expect(rules.delay(of: Self.mobile) == 3000)
        #expect(rules.delay(of: RuledDevice(id: DeviceID(rawValue: 9), label: "", canBeWoken: true)) == 10_000)
        #expect(rules.delay(of: Self.desk) == nil)
    }

    @Test func `a label finds the device after it has signed out and registered again`() {
        let choice = DeviceChoice.one(DeviceID(rawValue: 5), label: "urn:uuid:8")
        #expect(choice.contains(Self.mobile) && !choice.contains(Self.desk))
        #expect(!DeviceChoice.one(DeviceID(rawValue: 5), label: "").contains(Self.desk))
    }

    @Test func `rules survive the way through the store`() throws {
        var rules = CallRules()
        rules.order = .inTurn
        rules.groupMilliseconds = 2500
        rules.delays = [
            .init(.push, milliseconds: 10_000), .init(.ordinary, milliseconds: 0),
            .init(.one(DeviceID(rawValue: .max), label: "urn:uuid:\"ö"), milliseconds: 1),
        ]
        var silence = DoNotDisturb()
        silence.windows = [.init(days: [0, 6], from: 1320, to: 420)]
        silence.timeZone = "Europe/Berlin"
        silence.status = 486
        silence.exceptions = ["boss"]
        rules.doNotDisturb = silence
        let row = StoredUserRules(aor: Self.bob, rules: rules)
        #expect(StoredUserRules(aor: Self.bob, text: row.text) == row)
        #expect(StoredUserRules(aor: Self.bob, text: "{") == nil)
        #expect(StoredUserRules(aor: Self.bob, text: #"{"delays":[{"devices":{"kind":"new"}}]}"#) == nil)
    }

    @Test func `an successor of a device inherits its rule`() {
        var table = UserRulesTable()
        var rules = CallRules()
        rules.delays = [.init(.one(DeviceID(rawValue: 7), label: ""), milliseconds: 1000)]
        table.set(rules, of: Self.bob) { _ in nil }
        #expect(table.renamed(DeviceID(rawValue: 9), to: DeviceID(rawValue: 8), of: Self.bob) == nil)
        let row = table.renamed(DeviceID(rawValue: 7), to: DeviceID(rawValue: 8), of: Self.bob)
        #expect(row?.rules.delay(of: Self.mobile) == 1000 && table[Self.bob] == row?.rules)
        #expect(table.remove(Self.bob) && !table.remove(Self.bob) && table.isEmpty)
    }
}

@Suite("Do not disturb")
struct DoNotDisturbTests {
    /// Monday, 2026-09-21, at the given time in UTC; `day` 1 is Tuesday.
    private static func at(_ hour: Int64, _ minute: Int64 = 0, day: Int64 = 0) -> UnixTime {
        UnixTime(seconds: 1_789_948_800 + day * 86_400 + hour * 3600 + minute * 60)
    }

    private static func rule(_ windows: DoNotDisturb.Window...) -> DoNotDisturb {
        var rule = DoNotDisturb()
        rule.windows = windows
        return rule
    }

    @Test func `a rule without windows is in force always or never`() {
        var rule = DoNotDisturb()
        #expect(rule.end(at: Self.at(3), in: .utc) == nil)
        rule.isAlways = true
        #expect(rule.end(at: Self.at(3), in: .utc) == .never)
    }

    @Test func `a window of the day`() {
        let rule = Self.rule(.init(days: [0], from: 540, to: 1020))
        #expect(rule.end(at: Self.at(8, 59), in: .utc) == nil)
        #expect(rule.end(at: Self.at(9), in: .utc) == .at(minute: 1020))
        #expect(rule.end(at: Self.at(16, 59), in: .utc) == .at(minute: 1020))
        #expect(rule.end(at: Self.at(17), in: .utc) == nil)
        #expect(rule.end(at: Self.at(9, day: 1), in: .utc) == nil)
    }

    @Test func `a window over midnight belongs to the day on which it begins`() {
        let rule = Self.rule(.init(days: [0], from: 1320, to: 420))
        #expect(rule.end(at: Self.at(6), in: .utc) == nil)
        #expect(rule.end(at: Self.at(22), in: .utc) == .at(minute: 420))
        #expect(rule.end(at: Self.at(6, 59, day: 1), in: .utc) == .at(minute: 420))
        #expect(rule.end(at: Self.at(7, day: 1), in: .utc) == nil)
        #expect(rule.end(at: Self.at(22, day: 1), in: .utc) == nil)
        let sunday = Self.rule(.init(days: [6], from: 1320, to: 420))
        #expect(sunday.end(at: Self.at(6), in: .utc) == .at(minute: 420))
    }

    @Test func `a window whose times are equal lasts a day`() {
        let rule = Self.rule(.init(days: [0], from: 600, to: 600))
        #expect(rule.end(at: Self.at(10), in: .utc) != nil && rule.end(at: Self.at(9, 59, day: 1), in: .utc) != nil)
        #expect(rule.end(at: Self.at(9, 59), in: .utc) == nil && rule.end(at: Self.at(10, day: 1), in: .utc) == nil)
    }

    @Test func `windows are in the local time of the zone`() {
        let rule = Self.rule(.init(days: [1], from: 0, to: 60))
        #expect(rule.end(at: Self.at(22, 30), in: ZoneOffsets(offset: 7200)) == .at(minute: 60))
        #expect(rule.end(at: Self.at(22, 30), in: .utc) == nil)
        #expect(rule.end(at: Self.at(5, 30, day: 1), in: ZoneOffsets(offset: -18_000)) == .at(minute: 60))
    }

    @Test func `callers with an exception pass`() {
        var rule = DoNotDisturb()
        rule.exceptions = ["boss", "alice@Example.net"]
        #expect(rule.excepts(user: "boss", domain: "anywhere.example"))
        #expect(rule.excepts(user: "alice", domain: "example.NET"))
        #expect(!rule.excepts(user: "alice", domain: "evil.example") && !rule.excepts(user: "bos", domain: "x"))
        #expect(!rule.excepts(user: "", domain: ""))
    }

    @Test func `the end in words`() {
        #expect("\(DoNotDisturb.End.never)" == "always" && "\(DoNotDisturb.End.at(minute: 425))" == "until 07:05")
    }
}
