import ProxyCore
import Testing
import Timekeeping

@Suite("Admission while more comes than can be served")
struct AdmissionTests {
    private func at(_ milliseconds: Int) -> Instant {
        Instant(nanoseconds: 1_000_000_000 + Int64(milliseconds) * 1_000_000)
    }

    /// Waits of that length are measured every 10 ms.
    private func busy(_ wait: Duration, from start: Int = 0, for milliseconds: Int, _ admission: inout Admission) {
        for time in stride(from: start, through: start + milliseconds, by: 10) {
            admission.looked(after: wait, now: at(time))
        }
    }

    private static let most = [100, 100, 80, 90]

    /// The share of each kind that is refused, in percent.
    private func refused(_ admission: Admission, at time: Int) -> [Int] {
        Admission.Kind.allCases.map { kind in
            (0..<100).count { number in
                var copy = admission
                return copy.refuses(kind, lot: UInt32(number) * 42_949_672 + 21_474_836, now: at(time))
            }
        }
    }

    @Test func `nothing is refused while work waits no longer than it may`() {
        var admission = Admission(limit: .milliseconds(200))
        busy(.milliseconds(200), for: 5000, &admission)
        #expect(!admission.isUnderPressure)
    }

    @Test func `kinds give way one after the other, those who come for the first time first`() {
        var admission = Admission(limit: .milliseconds(200))
        var seen: [[Int]] = []
        for time in stride(from: 0, through: 700, by: 10) {
            admission.looked(after: .milliseconds(400), now: at(time))
            seen.append(refused(admission, at: time))
        }
        for shares in seen {
            // Of no kind is anything refused while of the kind before it more could be.
            for (index, share) in shares.enumerated().dropFirst() {
                #expect(share == 0 || shares[index - 1] == Self.most[index - 1])
            }
        }
        // Of REGISTERs and calls some are always served: to refuse more would leave less time for that.
        #expect(seen.last == Self.most)
        #expect(seen.firstIndex { $0[0] == 100 } ?? 99 <= 25)
        #expect(seen.firstIndex { $0[3] == Self.most[3] } ?? 99 <= 63)
    }

    @Test func `what waits for the disk counts together with what waits to be looked at`() {
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

    @Test func `two seconds after the load nothing is refused, whether anybody has asked meanwhile or not`() {
        var admission = Admission(limit: .milliseconds(200))
        busy(.seconds(1), for: 2000, &admission)
        #expect(refused(admission, at: 2000) == Self.most)
        #expect(refused(admission, at: 4300) == [0, 0, 0, 0])
        busy(.milliseconds(20), from: 2010, for: 2400, &admission)
        #expect(!admission.isUnderPressure)
    }

    @Test func `a machine that stood still refuses nothing of what waited meanwhile`() {
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

    @Test func `what is lost counts although all that is read is young`() {
        var admission = Admission(limit: .milliseconds(200))
        for time in stride(from: 0, through: 300, by: 10) {
            admission.looked(after: .milliseconds(10), now: at(time))
            admission.lost(now: at(time))
        }
        #expect(admission.isUnderPressure)
    }

    @Test func `who has his lot keeps it, and a limit of zero refuses nobody`() {
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
