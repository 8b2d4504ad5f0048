import Addressing
import Bytes
import Routing
import TestSupport
import Testing
import Timekeeping

/// The search through all contacts of the store, alone.
@Suite struct ContactSearchTests {
    private func moment(_ seconds: Int64) -> Moment {
        Moment(instant: Instant(nanoseconds: seconds * 1_000_000_000), date: UnixTime(seconds: 1_790_000_000 + seconds))
    }

    private let wanted = ContactSearch.Question.Wanted.withPush(of: [ByteString("example.net")])

    @Test func `a pass asks page after page, each after the last contact of the page before`() throws {
        var search = ContactSearch()
        #expect(search.timer() == nil && search.due(wanted, now: moment(1)) == nil)
        search.begin(at: moment(1).instant)
        #expect(search.timer() == moment(1).instant && search.timer() == nil)
        let firstAsked = search.due(wanted, now: moment(1))
        let first = try #require(firstAsked)
        #expect(first.after == nil && first.wanted == wanted && search.isCurrent(first))
        // No second question is asked before the answer.
        #expect(search.due(wanted, now: moment(2)) == nil && search.timer() == nil)
        #expect(search.answered(last: 7, pause: .zero, now: moment(2).instant) == nil)
        let pageAsked = search.timer()
        let page = try #require(pageAsked)
        #expect(page > moment(2).instant && page < moment(3).instant)
        let secondAsked = search.due(wanted, now: moment(3))
        let second = try #require(secondAsked)
        #expect(second.after == 7 && !search.isCurrent(first) && search.isCurrent(second))
        #expect(search.answered(last: nil, pause: .zero, now: moment(4).instant) == .seconds(3))
        // The next pass waits until somebody begins it.
        #expect(search.timer() == nil && search.pass == nil)
        search.begin(at: moment(20).instant)
        #expect(search.due(wanted, now: moment(19)) == nil)
        #expect(search.due(wanted, now: moment(20))?.after == nil)
    }

    @Test func `a page without an answer is asked again, and a late answer of an earlier pass is not used`() throws {
        var search = ContactSearch()
        search.begin(at: moment(1).instant)
        let firstAsked = search.due(wanted, now: moment(1))
        let first = try #require(firstAsked)
        search.notAnswered(now: moment(2).instant)
        #expect(search.due(wanted, now: moment(2)) == nil)
        let againAsked = search.due(wanted, now: moment(3))
        let again = try #require(againAsked)
        #expect(again.after == nil && again.number != first.number)
        search.begin(at: moment(4).instant)
        #expect(!search.isCurrent(again))
        #expect(search.answered(last: 9, pause: .zero, now: moment(4).instant) == nil)
        #expect(search.due(wanted, now: moment(5))?.after == nil)
        search.begin(at: nil)
        #expect(search.timer() == nil && search.due(wanted, now: moment(100)) == nil)
    }
}
