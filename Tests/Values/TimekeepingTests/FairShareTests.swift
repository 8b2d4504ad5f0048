import Testing
import Timekeeping

@Suite("One caller's share (T32)")
struct FairShareTests {
    private let share = FairShare(of: 16, ofOne: 8, ofUntrusted: 12)

    private func refusal(
        _ amount: Int = 1, all: Int, untrusted: Int, own: Int, isTrusted: Bool = false
    ) -> FairShare.Refusal? {
        share.refusal(
            of: amount, beside: FairShare.Taken(all: all, untrusted: untrusted, own: own), isTrusted: isTrusted)
    }

    @Test func `one caller has at most its share, trusted or not`() {
        #expect(refusal(all: 7, untrusted: 7, own: 7) == nil)
        #expect(refusal(all: 8, untrusted: 8, own: 8) == .callerFull)
        #expect(refusal(all: 8, untrusted: 0, own: 8, isTrusted: true) == .callerFull)
        #expect(refusal(3, all: 6, untrusted: 6, own: 6) == .callerFull)
    }

    @Test func `the part for trusted peers stays reserved for them`() {
        #expect(refusal(all: 12, untrusted: 12, own: 0) == .allFull)
        #expect(refusal(all: 12, untrusted: 12, own: 0, isTrusted: true) == nil)
        #expect(refusal(all: 16, untrusted: 12, own: 0, isTrusted: true) == .allFull)
        #expect(refusal(all: 14, untrusted: 2, own: 0) == nil)
    }

    @Test func `there is room for everybody, even in a small table`() {
        let least = FairShare(of: 1, ofOne: 0, ofUntrusted: 0)
        #expect(least.refusal(beside: FairShare.Taken(all: 0, untrusted: 0, own: 0), isTrusted: false) == nil)
    }

    @Test func `the caller with most entries loses its oldest, and untrusted callers come first if they have too much`()
    {
        func place(_ callers: [Int], _ share: FairShare) -> Int? { share.givesWay(among: callers) { $0 >= 100 } }
        let four = FairShare(of: 4, ofOne: 4, ofUntrusted: 3)
        #expect(place([1, 2, 2, 3, 2], four) == 1)
        #expect(place([1, 2, 3, 101], four) == 0)
        // A stranger loses an element, although a trusted caller has more elements, because all untrusted callers
        // together have more than three.
        #expect(place([100, 100, 1, 2, 3, 4], four) == 2)
        #expect(place([100, 100, 1, 2], four) == 0)
        #expect(place([], four) == nil)
    }

    @Test func `a rate has the same shares`() {
        var rate = SharedRate<Int>(FairShare(of: 8, ofOne: 4, ofUntrusted: 6))
        let now = Instant(nanoseconds: 1)
        func admitted(_ count: Int, by caller: UInt64?, isTrusted: Bool, now: Instant) -> Int {
            (0..<count).count { _ in rate.admit(7, by: caller, isTrusted: isTrusted, now: now) }
        }
        #expect(admitted(6, by: 1, isTrusted: false, now: now) == 4)
        #expect(admitted(6, by: 2, isTrusted: false, now: now) == 2)
        #expect(admitted(1, by: 3, isTrusted: true, now: now) == 1)
        #expect(!rate.isUsedUp(7, now: now))
        #expect(admitted(6, by: nil, isTrusted: true, now: now) == 1)
        #expect(rate.isUsedUp(7, now: now))
        // The limit for all callers recovers first, and the limit for untrusted callers later.
        #expect(admitted(6, by: 4, isTrusted: false, now: now + .seconds(10)) == 1)
        rate.changed(FairShare(of: 0, ofOne: 0, ofUntrusted: 0))
        #expect(admitted(100, by: 1, isTrusted: false, now: now) == 100)
    }

    @Test func `an unproved entry counts four times, and takes nothing from proved ones`() {
        var rate = SourceRate(perSecond: 4)
        let now = Instant(nanoseconds: 1)
        func asked(_ count: Int, _ isProved: Bool) -> Int {
            (0..<count).count { _ in rate.asked(5, isProved: isProved, now: now) }
        }
        // All requests that the limit allows in ten seconds may arrive at the same moment.
        #expect(asked(100, false) == 10)
        #expect(asked(100, true) == 40)
        let another = rate.asked(6, isProved: false, now: now)
        #expect(another)
        #expect(rate.wait(5, isProved: false, now: now).map { $0 > .milliseconds(999) } == true)
        #expect(rate.wait(5, isProved: false, now: now + .seconds(1)) == nil)
        rate.hasProvedItself(5, now: now + .seconds(10))
        #expect(rate.wait(5, isProved: false, now: now) == nil)
        rate.changed(perSecond: 0)
        #expect(!rate.isOn)
        #expect(asked(1_000, false) == 1_000)
    }
}
