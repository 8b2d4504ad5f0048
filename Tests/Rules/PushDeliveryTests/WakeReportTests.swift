import Testing

@testable import PushDelivery

@Suite("The report of wakes")
struct WakeReportTests {
    // MARK: Systems

    @Test(arguments: [
        ("LinphoneiOS/5.2.2 (Anna's iPhone) LinphoneSDK/5.3.10", PhoneSystem.iOS),
        ("Linphone-iOS/5.3.0 LinphoneSDK/5.3.0", .iOS),
        ("Groundwire/6.8 (build 2; iPhone15,2; iOS 17.1)", .iOS),
        ("Bria iOS release 6.8.2", .iOS), ("baresip v3.9.0 (arm64/ios)", .iOS), ("Softphone (IPAD)", .iOS),
        ("app/1 iPod touch", .iOS), ("ios", .iOS),
        ("LinphoneAndroid/5.2.5 (Pixel 7) LinphoneSDK/5.3.48", .android),
        ("baresip v3.9.0 (arm64-v8a/Android)", .android),
        ("3CX ANDROID 20.1", .android),
        // The first word of the User-Agent names the system, because the owner chooses the name of the device.
        ("LinphoneAndroid/5.2.5 (my next iPhone) LinphoneSDK/5.3", .android),
        ("LinphoneiOS/5.2.2 (Android hater) LinphoneSDK/5.3", .iOS),
        ("Cisco-SIPGateway/IOS-15.4", .other), ("kiosk 1.0", .other), ("Helios/2 BIOS", .other), ("iosphone", .other),
        ("PJSUA v2.13 Linux-6.1/x86_64/glibc-2.36", .other), ("Zoiper rv2.10", .other), ("", .other), ("i", .other),
        ("iO", .other), ("a", .other), ("Androi", .other), ("ipho", .other), ("\u{0}\u{7f}é", .other),
    ])
    func `the system comes from the User-Agent`(agent: String, system: PhoneSystem) {
        #expect(PhoneSystem(userAgent: Array(agent.utf8).span) == system)
    }

    // MARK: Outcomes

    private func outcome(
        registered: Int64? = nil, invited: Int64? = nil, ended: Int64? = nil, life: Bool = false,
        _ end: TimelineRecord.End? = nil
    ) -> WakeOutcome? {
        WakeOutcome(
            WakeOutcome.Steps(registered: registered, invited: invited, ended: ended, showedLife: life)
        ) { end }
    }

    @Test func `a phone that came has come, however the call ended`() {
        for end in TimelineRecord.End.allCases {
            #expect(outcome(registered: 1200, invited: 1300, ended: 2000, end) == .came(milliseconds: 1200))
            #expect(outcome(registered: 1200, ended: 1250, end) == .came(milliseconds: 1200))
            #expect(outcome(invited: 700, ended: 2000, life: true, end) == .came(milliseconds: 700))
            #expect(outcome(ended: 900, life: true, end) == .came(milliseconds: 900))
        }
        #expect(outcome(registered: 40_000, ended: 41_000, .answered) == .came(milliseconds: 40_000))
        #expect(outcome(registered: -5, ended: 1, .answered) == .came(milliseconds: 0))
    }

    @Test func `a push with the INVITE does not count, because nobody was woken`() {
        for end in TimelineRecord.End.allCases { #expect(outcome(invited: 3, ended: 40_000, end) == nil) }
    }

    @Test func `only a wait that ended by itself, or took 30 seconds, says that a phone never came`() {
        for end: TimelineRecord.End in [.timeOver, .boundReached, .forwarded] {
            #expect(outcome(ended: 8000, end) == .never)
            #expect(outcome(end) == .never)
        }
        #expect(outcome(ended: 29_999, .callerGaveUp) == .callerGaveUp)
        for end: TimelineRecord.End in [
            .answeredElsewhere, .declinedElsewhere, .endedByOperator, .signedOut, .notWaited,
        ] {
            #expect(outcome(ended: 29_999, end) == .endedOtherwise)
            #expect(outcome(ended: 30_000, end) == .never)
        }
        #expect(outcome(ended: 30_000, .callerGaveUp) == .never)
        #expect(outcome() == .endedOtherwise)
    }

    // MARK: Times

    @Test func `classes grow by at most a third, and the limits of the report are their ends`() {
        let bounds = WakeTimes.bounds
        for (low, high) in zip(bounds, bounds.dropFirst()) {
            #expect(low < high)
            #expect(low < 300 || (high - low) * 3 <= low + 2, "\(low) to \(high)")
        }
        for limit: Int64 in [5000, 10_000, 30_000] { #expect(bounds.contains(limit)) }
    }

    @Test(arguments: [(0, 1), (5000, 1), (5001, 0), (.max, 0)] as [(Int64, Int64)])
    func `a time at the limit is within the limit`(time: Int64, within: Int64) {
        var times = WakeTimes()
        times.add(milliseconds: time)
        #expect(times.total == 1)
        #expect(times.within(milliseconds: 5000) == within)
        #expect(times.within(milliseconds: .max) == (time > 60_000 ? 0 : 1))
    }

    @Test func `quantiles are in the classes of the true values`() {
        var times = WakeTimes()
        #expect(times.quantile(percent: 50) == nil)
        for time in 1...1000 { times.add(milliseconds: Int64(time) * 10) }
        for (percent, truth): (Int64, Int64) in [(1, 100), (50, 5000), (95, 9500), (99, 9900), (100, 10_000)] {
            let found = times.quantile(percent: percent) ?? 0
            #expect(abs(found - truth) * 3 <= truth, "\(percent): \(found)")
        }
        #expect(times.quantile(percent: 50) == 5000)
    }

    @Test func `one time is all quantiles, and the longest times are as long as the last limit`() {
        var times = WakeTimes()
        times.add(milliseconds: 2100)
        for percent: Int64 in [50, 95, 99] { #expect(times.quantile(percent: percent) == 2500) }
        var long = WakeTimes()
        long.add(milliseconds: 90_000)
        #expect(long.quantile(percent: 50) == 60_000)
    }

    @Test func `counts of days add up`() {
        var (one, other, both) = (WakeCounts(), WakeCounts(), WakeCounts())
        for outcome: WakeOutcome in [.came(milliseconds: 900), .never, .callerGaveUp] {
            one.add(outcome)
            both.add(outcome)
        }
        for outcome: WakeOutcome in [.came(milliseconds: 31_000), .endedOtherwise, .never] {
            other.add(outcome)
            both.add(outcome)
        }
        one.merge(other)
        #expect(one == both)
        #expect(one.pushes == 6 && one.came == 2 && one.never == 2 && one.callerGaveUp == 1 && one.endedOtherwise == 1)
        #expect(WakeTimes(counts: one.times.counts) == one.times)
        #expect(WakeTimes(counts: [1]) == nil)
        #expect(WakeTimes(counts: Array(repeating: -1, count: one.times.counts.count)) == nil)
    }
}
