@testable import Calling
import AccessLimits
import Addressing
import Bytes
import FoundationEssentials
import Registration
import Testing
import Timekeeping

@Suite("The code in a call's line")
struct CallCodeTests {
    @Test func `it has one letter for each question, and none means two things`() {
        #expect(CallCode(.held, .accepted, .registered, .answered).description == "HARA")
        #expect(CallCode.denied.description == "---D")
        func areDistinct<Letter: CaseIterable & RawRepresentable<String>>(_: Letter.Type) -> Bool {
            Set(Letter.allCases.map(\.rawValue)).count == Letter.allCases.count
                && Letter.allCases.allSatisfy { $0.rawValue.utf8.count == 1 }
        }
        #expect(areDistinct(CallCode.Hold.self) && areDistinct(CallCode.Push.self))
        #expect(areDistinct(CallCode.Wake.self) && areDistinct(CallCode.End.self))
    }

    @Test func `docs/Logging.md explains each letter at its place`() throws {
        let root = URL(filePath: #filePath).appending(path: "../../../..").standardized
        let page = try String(contentsOf: root.appending(path: "docs/Logging.md"), encoding: .utf8)
        let letters: [(Int, [String])] = [
            (1, CallCode.Hold.allCases.map(\.rawValue)), (2, CallCode.Push.allCases.map(\.rawValue)),
            (3, CallCode.Wake.allCases.map(\.rawValue)), (4, CallCode.End.allCases.map(\.rawValue)),
        ]
        for (place, expected) in letters {
            let rows = page.split(separator: "\n").filter { $0.hasPrefix("| \(place) | `") }
            let found = rows.compactMap { $0.split(separator: "`").dropFirst().first.map(String.init) }
            #expect(found.sorted() == expected.sorted(), "place \(place)")
        }
    }

    @Test func `a failure is what no person has caused`() {
        #expect(CallCode(.held, .accepted, .nobody, .timeOver).isFailure)
        #expect(CallCode(.held, .failed, .nobody, .pushFailed).isFailure)
        #expect(CallCode(.outgoing, .none, .none, .noAnswer).isFailure)
        #expect(CallCode(.held, .accepted, .nobody, .forwarded).isFailure)
        for end in [CallCode.End.forwarded, .redirected, .phonesGone] {
            #expect(CallCode(.none, .none, .none, end).isFailure)
        }
        #expect(CallCode(.held, .failed, .nobody, .callerGaveUp).isFailure)
        #expect(!CallCode(.held, .accepted, .nobody, .callerGaveUp).isFailure)
        for end in [CallCode.End.answered, .answeredElsewhere, .refused, .endedByOperator, .denied] {
            #expect(!CallCode(.held, .accepted, .registered, end).isFailure)
        }
    }

    private static func aor(_ user: Int) -> AddressOfRecord {
        AddressOfRecord(user: ByteString("u\(user)"), host: ByteString("example.net"))
    }

    private static func caller(_ number: UInt64) -> Caller { Caller(hash: number, isTrusted: true) }

    @Test func `lines of failed calls are few for one callee, and few for all`() {
        var lines = CallLines()
        var now = Instant(nanoseconds: 0)
        let one = (0..<100).compactMap { lines.admit(to: Self.aor(0), from: Self.caller($0), now: now) }
        #expect(one == Array(repeating: 0, count: 6))
        // The log line about the next callee has the number of suppressed lines.
        #expect(lines.admit(to: Self.aor(1), from: Self.caller(1000), now: now) == 94)
        now = now + .seconds(10)
        let many = (0..<1000).compactMap {
            lines.admit(to: Self.aor($0), from: Self.caller(2000 + UInt64($0)), now: now)
        }
        #expect(many.count == 20)
        now = now + .seconds(10)
        #expect(lines.admit(to: Self.aor(5000), from: Self.caller(5000), now: now).map { $0 > 900 } == true)
    }

    @Test func `one caller who calls many users in vain leaves lines for the calls of others`() {
        var lines = CallLines()
        let now = Instant(nanoseconds: 0)
        let loud = (0..<1000).compactMap { lines.admit(to: Self.aor($0), from: Self.caller(1), now: now) }
        #expect(loud.count == 12)
        #expect(lines.admit(to: Self.aor(5000), from: Self.caller(2), now: now) == 988)
    }

    @Test func `lines about refused pushes are few for one caller, and leave room for others`() {
        var lines = CallerLines()
        let now = Instant(nanoseconds: 0)
        #expect((0..<1000).compactMap { _ in lines.admit(Self.caller(1), now: now) }.count == 12)
        #expect(lines.admit(Self.caller(2), now: now) == 988)
    }
}
