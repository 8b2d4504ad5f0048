import Calling
import ProxyPolicy
import Testing

@Suite("Devices that ring one after the other (RFC 3261 section 16.6)")
struct RingTurnsTests {
    private static func members(_ values: [(q: UInt16, delay: Int64?)]) -> [RingTurns.Member] {
        values.enumerated().map { RingTurns.Member(branch: $0, q: $1.q, delay: $1.delay) }
    }

    private static func turns(
        _ values: [(q: UInt16, delay: Int64?)], _ order: CallSettings.RingOrder = .parallel
    ) -> RingTurns? {
        RingTurns(members(values), order, groupTime: .seconds(15))
    }

    @Test func `devices that ring at the same time need no turns`() {
        #expect(Self.turns([(1000, nil), (500, nil)]) == nil)
        #expect(Self.turns([(1000, nil), (1000, nil)], .q) == nil)
        #expect(Self.turns([], .q) == nil)
        #expect(Self.turns([(1000, 5000)]) == nil)
    }

    @Test func `higher q rings first, equal q together`() throws {
        var turns = try #require(Self.turns([(500, nil), (1000, nil), (500, nil), (100, nil)], .q))
        #expect(turns.lastStart == .seconds(30))
        #expect(turns.takeDue(at: .zero) == [1])
        #expect(turns.nextStart == .seconds(15))
        #expect(turns.takeDue(at: .milliseconds(14_999)).isEmpty)
        #expect(turns.takeDue(at: .seconds(15)) == [0, 2])
        #expect(turns.takeNext(at: .seconds(16)) == [3])
        #expect(turns.begun(3) == .seconds(16) && turns.begun(1) == .zero)
        #expect(turns.nextStart == nil && turns.takeNext(at: .seconds(17)).isEmpty)
    }

    @Test func `a delay counts from the INVITE, and takes precedence over q`() throws {
        var turns = try #require(Self.turns([(1000, 10_000), (500, nil), (100, nil)], .q))
        #expect(turns.takeDue(at: .zero) == [1])
        #expect(turns.takeDue(at: .seconds(10)) == [0])
        #expect(turns.takeDue(at: .seconds(15)) == [2])
    }

    @Test func `a first group whose devices all have a delay rings at once`() throws {
        var turns = try #require(Self.turns([(1000, 5000), (1000, 20_000)]))
        #expect(turns.takeDue(at: .zero) == [0])
        #expect(turns.nextStart == .seconds(20))
    }

    @Test func `a thousand values of q become sixteen groups`() throws {
        let values = (0..<1000).map { (q: UInt16($0), delay: Int64?.none) }
        var turns = try #require(Self.turns(values, .q))
        var groups: [[Int]] = []
        while turns.nextStart != nil { groups.append(turns.takeNext(at: .seconds(1))) }
        #expect(groups.count == RingTurns.mostGroups)
        #expect(Set(groups.joined()).count == 1000)
        #expect(groups.first == [999])
    }

    @Test func `many delays become sixteen groups`() throws {
        let turns = try #require(Self.turns((0..<100).map { (q: 1000, delay: Int64($0) * 1000) }))
        #expect(turns.lastStart == .seconds(15))
    }

    @Test func `only the order in turn ends earlier groups`() {
        #expect(Self.turns([(1000, nil), (500, nil)], .inTurn)?.isInTurn == true)
        #expect(Self.turns([(1000, nil), (500, nil)], .q)?.isInTurn == false)
        #expect(Self.turns([(1000, nil), (500, 1)])?.isInTurn == false)
    }
}
