@testable import SIPDialogs
import Addressing
import Bytes
import Registration
import TestSupport
import Testing
import Timekeeping

@Suite("Dialog token in Record-Route")
struct DialogTokenTests {
    private static let run: UInt32 = 0xfedc_ba98

    private func flow(_ address: String, _ transport: Transport, connection: UInt64 = 0) throws -> Flow {
        Flow(transport: transport, listener: 3, connection: connection, remote: try #require(Endpoint(address)))
    }

    private func sides() throws -> [DialogSide] {
        [
            DialogSide(.peer, on: try flow("192.0.2.7:5060", .udp)),
            DialogSide(.upstream, on: try flow("[2001:db8::9]:65535", .tcp)),
            DialogSide(.phone(DeviceID(rawValue: 1 << 62 | 5)), on: try flow("198.51.100.1:1", .tcp, connection: 77)),
            DialogSide(.phone(DeviceID(rawValue: 9)), on: try flow("198.51.100.1:1", .udp)),
            DialogSide(.caller(0xffff_ffff_ffff), on: try flow("[::1]:9", .tcp, connection: 0xffff_ffff)),
            DialogSide(.caller(0), on: try flow("203.0.113.1:40000", .udp)),
        ]
    }

    @Test func `is read back as it was written, for IPv4 and IPv6, UDP and streams`() throws {
        for caller in try sides() {
            for callee in try sides() {
                let token = DialogToken(made: UnixTime(seconds: 1_790_000_001), caller: caller, callee: callee)
                #expect(DialogToken(token.encoded(in: Self.run), in: Self.run) == token)
            }
        }
    }

    @Test func `connections of another run are closed, all else stays`() throws {
        for caller in try sides() {
            for callee in try sides() {
                let token = DialogToken(made: UnixTime(seconds: 5), caller: caller, callee: callee)
                let read = try #require(DialogToken(token.encoded(in: Self.run), in: 1))
                for (side, original) in [(read.caller, caller), (read.callee, callee)] {
                    #expect(side.party == original.party)
                    #expect(side.flow == (original.flow.isConnection ? original.flow.closed : original.flow))
                }
            }
        }
    }

    @Test func `a connection beyond four bytes, or one that has ended, is read back as closed`() throws {
        for number in [UInt64(1) << 32, .max] {
            let side = DialogSide(.caller(0), on: try flow("192.0.2.1:1", .tcp, connection: number))
            let token = DialogToken(made: UnixTime(seconds: 5), caller: side, callee: side)
            #expect(DialogToken(token.encoded(in: 1), in: 1)?.caller.flow.isClosed == true)
        }
    }

    @Test func `the names of phones are read back, and those of peers are not`() throws {
        let sides = try sides()
        for caller in sides {
            for callee in sides where caller.party.isPhone || callee.party.isPhone {
                let names = DialogNames(
                    key: 0xfe_dcba,
                    caller: caller.party.isPhone ? DialogNames.Caller(uri: 0x12_3456, name: 0) : nil,
                    callee: callee.party.isPhone ? DialogNames.Callee(uri: 0xff_ffff, name: 7) : nil)
                let token = DialogToken(made: UnixTime(seconds: 5), caller: caller, callee: callee, names: names)
                let bytes = token.encoded(in: Self.run)
                #expect(DialogToken(bytes, in: Self.run) == token)
                #expect(DialogToken(Array(bytes.dropLast()), in: Self.run) == nil)
                #expect(DialogToken(bytes + [0], in: Self.run) == nil)
            }
        }
    }

    @Test func `a token of a build that did not know the name of the called phone is read`() throws {
        let sides = try sides()
        let names = DialogNames(key: 1, caller: nil, callee: DialogNames.Callee(uri: 2, name: nil))
        let token = DialogToken(made: UnixTime(seconds: 5), caller: sides[0], callee: sides[3], names: names)
        #expect(DialogToken(token.encoded(in: 1), in: 1) == token)
    }

    @Test func `tokens that are cut short or too long are invalid`() throws {
        let sides = try sides()
        let bytes = DialogToken(made: UnixTime(seconds: 5), caller: sides[2], callee: sides[0]).encoded(in: 1)
        for count in 0..<bytes.count { #expect(DialogToken(Array(bytes.prefix(count)), in: 1) == nil) }
        #expect(DialogToken(bytes + [0], in: 1) == nil)
    }

    /// The token's length matters, because each message of a dialog contains the token, in Record-Route.
    @Test func `a call from a PBX to a phone, both over UDP, takes 72 characters, one over TCP 83`() throws {
        let sides = try sides()
        let names = DialogNames(key: 1, caller: nil, callee: DialogNames.Callee(uri: 2, name: 0))
        for (callee, length) in [(sides[3], 72), (sides[2], 83)] {
            let token = DialogToken(
                made: UnixTime(seconds: 1_790_000_000), caller: sides[0], callee: callee, names: names)
            let text = DialogSeal.forTests.seal(token.encoded(in: 1), ByteString("call"), ByteString("tag"))
            #expect(text.count == length)
        }
    }
}

@Suite("Lifetimes of dialogs")
struct DialogLivesTests {
    private let start = UnixTime(seconds: 1000)

    @Test func `the table keeps its size, and the entry that ends first is dropped`() {
        var lives = DialogRenewals(limit: 100)
        for number in 0..<1000 {
            let now = start + .seconds(Int64(number))
            lives.renew(UInt64(number) << 48, until: now + .seconds(5000), now: now)
            #expect(lives.count <= 100)
        }
        #expect(lives.keys(at: start) == Set((900..<1000).map { UInt8(truncatingIfNeeded: $0 >> 8) }))
    }

    @Test func `one dialog that is renewed a million times takes one place`() {
        var lives = DialogRenewals(limit: 100)
        for number in 0..<1000 {
            let now = start + .seconds(Int64(number))
            lives.renew(7, until: now + .seconds(5000), now: now)
        }
        lives.renew(8, until: start + .seconds(9000), now: start)
        #expect(lives.count == 2)
        #expect(lives.keys(at: start + .seconds(10_000)).isEmpty)
    }
}
