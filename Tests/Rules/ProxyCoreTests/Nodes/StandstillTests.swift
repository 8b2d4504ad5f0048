import ProxyCore
import Testing
import Timekeeping

@Suite struct StandstillTests {
    private let start = Instant(nanoseconds: 1_000_000_000)

    @Test func `a loop that turns each second does not stand still`() {
        var standstill = Standstill(now: start)
        let turns = (1...10).map { standstill.turned(now: start + .seconds($0)) != nil }
        #expect(!turns.contains(true))
        let last = standstill.turned(now: start + .seconds(13))
        #expect(last == nil)
        #expect(!standstill.isBehind)
    }

    @Test func `a pause of more than three seconds is a standstill until the store has answered`() throws {
        var standstill = Standstill(now: start)
        let pause = standstill.turned(now: start + .milliseconds(3001))
        let found = try #require(pause)
        #expect(found.length == .milliseconds(3001))
        #expect(standstill.isBehind)
        let next = standstill.turned(now: start + .milliseconds(3002))
        #expect(next == nil)
        let counts = [standstill.caughtUp(found.question), standstill.caughtUp(found.question)]
        #expect(counts == [true, false])
        #expect(!standstill.isBehind)
    }

    @Test func `after a second standstill, the answer to the first question does not count`() throws {
        var standstill = Standstill(now: start)
        let pauses = [standstill.turned(now: start + .seconds(4)), standstill.turned(now: start + .seconds(9))]
        let questions = pauses.compactMap { $0?.question }
        #expect(questions.count == 2)
        let counts = questions.map { standstill.caughtUp($0) }
        #expect(counts == [false, true])
    }
}
