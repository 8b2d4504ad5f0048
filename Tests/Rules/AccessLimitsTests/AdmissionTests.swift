@testable import AccessLimits
import Testing
import Timekeeping

@Suite("Admission under overload")
struct AdmissionTests {
    private func at(_ milliseconds: Int) -> Instant {
        Instant(nanoseconds: 1_000_000_000 + Int64(milliseconds) * 1_000_000)
    }

    /// Reports to the admission control every 10 ms, for `milliseconds`, that work has waited for `wait`.
    private func busy(_ wait: Duration, from start: Int = 0, for milliseconds: Int, _ admission: inout Admission) {
        for time in stride(from: start, through: start + milliseconds, by: 10) {
            admission.looked(after: wait, now: at(time))
        }
    }

    private static let most = [100, 100, 80, 90]

    /// For each kind of work, how many percent the admission control refuses.
    private func refused(_ admission: Admission, at time: Int) -> [Int] {
        Admission.Kind.allCases.map { kind in
            (0..<100).count { number in
                var copy = admission
                return copy.refuses(kind, lot: UInt32(number) * 42_949_672 + 21_474_836, now: at(time))
            }
        }
    }

    @Test func `operators hear of an overload once, and of its end when nothing is refused any more`() {
        var admission = Admission(limit: .milliseconds(200))
        #expect(admission.mayBeRelieved(at: 5, now: at(0)) == .notBegun)
        busy(.milliseconds(400), for: 700, &admission)
        let told = [admission.refused(after: 5, now: at(700)), admission.refused(after: 6, now: at(800))]
        #expect(told == [true, false])
        #expect(admission.mayBeRelieved(at: 9, now: at(710)) == .notYet)
        #expect(admission.mayBeRelieved(at: 12, now: at(60_000)) == .relieved(after: .milliseconds(59_300), refused: 7))
        #expect(admission.mayBeRelieved(at: 12, now: at(60_001)) == .notBegun)
        let again = admission.refused(after: 12, now: at(70_000))
        #expect(again)
    }

    @Test func `a daemon that shuts down says so from then on`() {
        var admission = Admission(limit: .zero)
        #expect(!admission.isDraining)
        admission.drainBegins()
        #expect(admission.isDraining)
    }

    @Test func `nothing is refused while work waits no longer than allowed`() {
        var admission = Admission(limit: .milliseconds(200))
        busy(.milliseconds(200), for: 5000, &admission)
        #expect(!admission.isUnderPressure)
    }

    @Test func `kinds are refused one after the other, first-time clients first`() {
        var admission = Admission(limit: .milliseconds(200))
        var seen: [[Int]] = []
        for time in stride(from: 0, through: 700, by: 10) {
            admission.looked(after: .milliseconds(400), now: at(time))
            seen.append(refused(admission, at: time))
        }
        for shares in seen {
            // The admission control refuses a kind of work only if it refuses all less important kinds as far as
            // possible.
            for (index, share) in shares.enumerated().dropFirst() {
                #expect(share == 0 || shares[index - 1] == Self.most[index - 1])
            }
        }
        // Even at the highest load, the admission control accepts some REGISTERs and calls.
        #expect(seen.last == Self.most)
        #expect(seen.firstIndex { $0[0] == 100 } ?? 99 <= 25)
        #expect(seen.firstIndex { $0[3] == Self.most[3] } ?? 99 <= 63)
    }

    @Test func `the waiting times for the disk and for the reader are added`() {
        var admission = Admission(limit: .milliseconds(200))
        for time in stride(from: 0, through: 300, by: 10) {
            admission.looked(after: .milliseconds(150), now: at(time))
            admission.stored(after: .milliseconds(150), now: at(time))
        }
        #expect(admission.isUnderPressure)
        var either = Admission(limit: .milliseconds(200))
        busy(.milliseconds(150), for: 300, &either)
        for time in stride(from: 1000, through: 1300, by: 10) {
            either.stored(after: .milliseconds(150), now: at(time))
        }
        #expect(!either.isUnderPressure)
    }

    @Test func `two seconds after the load nothing is refused, with or without requests in between`() {
        var admission = Admission(limit: .milliseconds(200))
        busy(.seconds(1), for: 2000, &admission)
        #expect(refused(admission, at: 2000) == Self.most)
        #expect(refused(admission, at: 4300) == [0, 0, 0, 0])
        busy(.milliseconds(20), from: 2010, for: 2400, &admission)
        #expect(!admission.isUnderPressure)
    }

    @Test func `a machine that was suspended refuses nothing that waited in the meantime`() {
        var admission = Admission(limit: .milliseconds(200))
        busy(.seconds(30), for: 90, &admission)
        busy(.milliseconds(3), from: 100, for: 100, &admission)
        #expect(!admission.isUnderPressure)
    }

    @Test func `one slow commit is no load`() {
        var admission = Admission(limit: .milliseconds(200))
        for number in 0..<20 {
            admission.stored(after: .seconds(2), now: at(number * 200))
            admission.stored(after: .milliseconds(4), now: at(number * 200 + 50))
        }
        #expect(!admission.isUnderPressure)
    }

    @Test func `lost packets count although all that are read are recent`() {
        var admission = Admission(limit: .milliseconds(200))
        for time in stride(from: 0, through: 300, by: 10) {
            admission.looked(after: .milliseconds(10), now: at(time))
            admission.lost(now: at(time))
        }
        #expect(admission.isUnderPressure)
    }

    @Test func `a client keeps its lot, and a limit of zero refuses nobody`() {
        var admission = Admission(limit: .milliseconds(200))
        busy(.seconds(1), for: 160, &admission)
        let shares = refused(admission, at: 160)
        #expect(0 < shares[0] && shares[0] < 100)
        var twice = admission
        let verdicts = [(0, 161), (0, 162), (UInt32.max, 163)].map { lot, time in
            twice.refuses(.newDevice, lot: lot, now: at(time))
        }
        #expect(verdicts == [true, true, false])
        var off = Admission(limit: .zero)
        busy(.seconds(10), for: 1000, &off)
        #expect(!off.isUnderPressure)
    }
}
