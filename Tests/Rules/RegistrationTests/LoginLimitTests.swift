import Addressing
import Bytes
import Registration
import Testing
import Timekeeping

@Suite struct `Limits of wrong passwords` {
    /// A class that wraps the login limit, so that `#expect` can call its methods.
    private final class Door {
        var limit: LoginLimit
        private let start = Instant(nanoseconds: 1_000_000_000)

        init(_ perSource: Int, _ perUser: Int) { limit = LoginLimit(perSource: perSource, perUser: perUser) }

        func wait(
            _ source: IPAddress?, _ user: String?, isAtHome: Bool = false, after time: Duration = .zero
        ) -> Duration? {
            limit.wait(for: attempt(source, user, isAtHome), now: start + time)
        }

        func fail(_ source: IPAddress?, _ user: String?, isAtHome: Bool = false, after time: Duration = .zero) {
            limit.failed(attempt(source, user, isAtHome), now: start + time)
        }

        func succeed(_ source: IPAddress?, _ user: String) { limit.succeeded(attempt(source, user, false)) }

        private func attempt(_ source: IPAddress?, _ user: String?, _ isAtHome: Bool) -> LoginLimit.Attempt {
            let aor = user.map { AddressOfRecord(user: ByteString($0), host: ByteString("example.net")) }
            return LoginLimit.Attempt(from: source, for: aor, isAtHome: isAtHome)
        }
    }

    private let here = IPAddress(v4: 0xc000_0201)
    private let there = IPAddress(v4: 0xc000_0202)

    @Test func `a source may try again one step later, with any user's password`() {
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

    @Test func `a user may try again one step later, from any source`() {
        let door = Door(10, 30)
        for number in 0..<30 { door.fail(IPAddress(v4: UInt32(number)), "100") }
        #expect(door.wait(there, "100") == .seconds(2))
        #expect(door.wait(there, "101") == nil)
        #expect(door.wait(there, nil) == nil)
        #expect(door.wait(there, "100", after: .seconds(2)) == nil)
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
        let one: IPAddress = try #require(IPAddress("2001:db8:1:2:3::1"))
        let beside: IPAddress = try #require(IPAddress("2001:db8:1:2:ffff::9"))
        let other: IPAddress = try #require(IPAddress("2001:db8:1:3::1"))
        door.fail(one, nil)
        #expect(door.wait(beside, nil) != nil)
        #expect(door.wait(other, nil) == nil)
    }

    // MARK: Known addresses

    @Test func `nobody can lock a user out at an address where the user has shown the password`() {
        let door = Door(10, 30)
        door.succeed(here, "u")
        for number in 0..<40 { door.fail(IPAddress(v4: UInt32(number)), "u") }
        for number in 0..<10 { door.fail(here, "other\(number)") }
        #expect(door.wait(there, "u") != nil && door.wait(here, "v") != nil)
        #expect(door.wait(here, "u") == nil)
        // The user can still log in at an address at which the user has a contact.
        #expect(door.wait(there, "u", isAtHome: true) == nil)
    }

    @Test func `from there it is guessed no faster, and for that user only`() {
        let door = Door(10, 30)
        door.succeed(here, "u")
        for _ in 0..<30 {
            #expect(door.wait(here, "u") == nil)
            door.fail(here, "u")
        }
        #expect(door.wait(here, "u") == .seconds(2))
        // A phone with an old password locks out neither its user at another address nor other users at its own
        // address.
        #expect(door.wait(there, "u") == nil && door.wait(here, "v") == nil)
    }

    @Test func `a trusted peer speaks for many: its guesses count by user alone`() {
        let door = Door(10, 30)
        for number in 0..<100 { door.fail(nil, "u\(number)") }
        #expect(door.wait(nil, "u0") == nil)
        for _ in 0..<30 { door.fail(nil, "v") }
        #expect(door.wait(nil, "v") != nil)
        door.succeed(nil, "v")
        #expect(door.wait(nil, "v") != nil)
    }

    @Test func `the memory of successes is limited, and the latest ones stay`() {
        let door = Door(10, 1)
        for number in 0..<LoginLimit.capacity * 2 { door.succeed(IPAddress(v4: UInt32(number)), "u") }
        door.fail(there, "u")
        let last = IPAddress(v4: UInt32(LoginLimit.capacity * 2 - 1))
        #expect(door.wait(last, "u") == nil)
        #expect(door.wait(IPAddress(v4: 0), "u") != nil)
    }

    @Test func `zero is no limit`() {
        let door = Door(0, 0)
        for _ in 0..<1_000 { door.fail(here, "u") }
        #expect(door.wait(here, "u") == nil)
    }
}
