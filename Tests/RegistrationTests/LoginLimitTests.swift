import Addressing
import Registration
import SIPGrammar
import Testing
import Timekeeping

@Suite struct `Limits of wrong passwords` {
    /// A box, so that expectations may ask.
    private final class Door {
        var limit: LoginLimit
        private let start = Instant(nanoseconds: 1_000_000_000)

        init(_ perSource: Int, _ perUser: Int) { limit = LoginLimit(perSource: perSource, perUser: perUser) }

        func wait(_ source: IPAddress, _ user: String?, after time: Duration = .zero) -> Duration? {
            limit.wait(from: source, for: user.map { ByteString($0) }, now: start + time)
        }

        func fail(_ source: IPAddress, _ user: String?, after time: Duration = .zero) {
            limit.failed(from: source, for: user.map { ByteString($0) }, now: start + time)
        }
    }

    private let here = IPAddress(v4: 0xc000_0201)
    private let there = IPAddress(v4: 0xc000_0202)

    @Test func `a source is heard again one step later, whosever password it was`() {
        let door = Door(10, 30)
        for number in 0..<10 {
            #expect(door.wait(here, "u\(number)") == nil)
            door.fail(here, "u\(number)")
        }
        for user in ["u0", "another", nil] { #expect(door.wait(here, user) == .seconds(6)) }
        #expect(door.wait(there, "u0") == nil)
        #expect(door.wait(here, "u0", after: .milliseconds(5_999)) == .milliseconds(1))
        #expect(door.wait(here, "u0", after: .seconds(6)) == nil)
        door.fail(here, "u0", after: .seconds(6))
        #expect(door.wait(here, "u0", after: .seconds(6)) == .seconds(6))
    }

    @Test func `a user is looked at again one step later, whoever asks`() {
        let door = Door(10, 30)
        for number in 0..<30 { door.fail(IPAddress(v4: UInt32(number)), "100@example.net") }
        #expect(door.wait(there, "100@example.net") == .seconds(2))
        #expect(door.wait(there, "101@example.net") == nil)
        #expect(door.wait(there, nil) == nil)
        #expect(door.wait(there, "100@example.net", after: .seconds(2)) == nil)
    }

    @Test func `one source does not lock a user out`() {
        let door = Door(10, 30)
        var failures = 0
        for second in 0..<60 where door.wait(here, "u", after: .seconds(second)) == nil {
            door.fail(here, "u", after: .seconds(second))
            failures += 1
        }
        #expect(failures == 19)
        #expect(door.wait(there, "u", after: .seconds(60)) == nil)
    }

    @Test func `an IPv6 network is one source`() throws {
        let door = Door(1, 0)
        door.fail(try #require(IPAddress("2001:db8:1:2:3::1")), nil)
        #expect(door.wait(try #require(IPAddress("2001:db8:1:2:ffff::9")), nil) != nil)
        #expect(door.wait(try #require(IPAddress("2001:db8:1:3::1")), nil) == nil)
    }

    @Test func `zero is no limit`() {
        let door = Door(0, 0)
        for _ in 0..<1_000 { door.fail(here, "u") }
        #expect(door.wait(here, "u") == nil)
    }
}
