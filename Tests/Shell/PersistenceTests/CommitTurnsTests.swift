import Testing
import Timekeeping

@testable import Persistence

@Suite("Store, turns of commits")
struct CommitTurnsTests {
    @Test func `while several wait for each commit the next begins a while after it, otherwise at once`() {
        var settings = StoreWriterSettings()
        settings.commitInterval = .milliseconds(2)
        settings.groupSizeLimit = 4
        var turns = CommitTurns(settings)
        let start = Instant(nanoseconds: 1_000_000_000)
        #expect(turns.next <= start)
        turns.began(for: 3, now: start)
        #expect(turns.next <= start)
        turns.began(for: 4, now: start)
        #expect(turns.next == start + .milliseconds(2))
        turns.began(for: 0, now: start + .milliseconds(2))
        #expect(turns.next <= start)
    }
}
