import Addressing
import PushDelivery
import PushPlanning
import Testing
import Timekeeping

private let start = Instant(nanoseconds: 1_000_000_000)
private let lead: Duration = .seconds(180)

private func at(_ seconds: Int) -> Instant { start + .seconds(seconds) }

private let apps = PushDirectory(
    {
        var settings = PushSettings()
        settings.apns.enabled = true
        settings.fcm.enabled = true
        settings.fcm.projectID = "p"
        return settings
    }()
).apps

@Suite("Refresh pushes: when a phone gets the next, and how many an app may have")
struct RefreshPushesTests {
    private let app = apps[0].id

    /// Sends all pushes to a phone that never registers, and returns their times in seconds.
    private func schedule(
        _ plan: inout RefreshPushes, _ contact: RefreshPushes.Contact, allowed: Int = 3, from first: Int
    ) -> [Int] {
        var times: [Int] = []
        if plan.found(contact, lead: lead, now: at(first)) {
            _ = plan.sent(contact, of: app, allowed: allowed, now: at(first))
            times.append(first)
        }
        for second in first...2000 {
            while let due = plan.nextDue(now: at(second)) {
                guard due.expiry > at(second) else {
                    let value1 = plan.expired(due)
                    #expect(value1)
                    continue
                }
                let value2 = plan.admits(due, of: app, now: at(second))
                #expect(value2)
                _ = plan.sent(due, of: app, allowed: allowed, now: at(second))
                times.append(second)
            }
        }
        return times
    }

    @Test func `the second push comes after half of the rest, and the third after a quarter`() throws {
        for number in 1...200 {
            var plan = RefreshPushes(tries: 3, perSecond: 500)
            let contact = RefreshPushes.Contact(DeviceID(rawValue: UInt64(number)), until: at(1000))
            let times = schedule(&plan, contact, from: 840)
            try #require(times.count == 3)
            // The rest is 160 s. Each pause is up to an eighth longer.
            #expect((920...931).contains(times[1]), "\(times)")
            #expect((955...972).contains(times[2]), "\(times)")
            #expect(plan.count == 0)
            let figures = try #require(plan.figures[app])
            #expect(figures.sent == [1, 1, 1] && figures.came == [0, 0, 0] && figures.never == 1)
        }
    }

    @Test func `phones that registered together are not woken together again`() {
        var plan = RefreshPushes(tries: 2, perSecond: 100_000)
        for number in 1...1000 {
            let contact = RefreshPushes.Contact(DeviceID(rawValue: UInt64(number)), until: at(1000))
            let value3 = plan.found(contact, lead: lead, now: at(840))
            #expect(value3)
            _ = plan.sent(contact, of: app, allowed: 3, now: at(840))
        }
        var most = 0
        for second in 840...1000 {
            var count = 0
            while plan.nextDue(now: at(second)) != nil { count += 1 }
            most = max(most, count)
        }
        #expect(most <= 140)
    }

    @Test(arguments: [(1, 3, 1), (2, 3, 2), (3, 1, 1), (3, 2, 2), (3, 3, 3)])
    func `settings and provider limit the pushes`(tries: Int, allowed: Int, expected: Int) {
        var plan = RefreshPushes(tries: tries, perSecond: 500)
        let contact = RefreshPushes.Contact(DeviceID(rawValue: 7), until: at(1000))
        let times = schedule(&plan, contact, allowed: allowed, from: 840)
        #expect(times.count == expected)
    }

    @Test func `each push is useful until the next, and the last one until the expiry`() {
        var plan = RefreshPushes(tries: 2, perSecond: 500)
        let contact = RefreshPushes.Contact(DeviceID(rawValue: 7), until: at(1000))
        let end = plan.sent(contact, of: app, allowed: 3, now: at(840))
        #expect(end >= at(920) && end <= at(930))
        guard let due = plan.nextDue(now: end + .seconds(1)) else {
            Issue.record("the contact is not followed")
            return
        }
        let value4 = plan.sent(due, of: app, allowed: 3, now: end)
        #expect(value4 == at(1000))
    }

    @Test func `Apple gets three an hour at most, and every phone at least one`() throws {
        let apple = try #require(apps.first { $0.provider == .apns })
        let google = try #require(apps.first { $0.provider == .fcm })
        for (granted, ofApple, ofGoogle) in [
            (UInt32(3600), 3, 3), (1800, 1, 3), (600, 1, 2), (60, 1, 1), (86_400, 3, 3),
        ] {
            #expect(apple.refreshPushes(within: granted) == ofApple)
            #expect(google.refreshPushes(within: granted) == ofGoogle)
        }
    }

    // MARK: Budget of an app

    @Test func `an app has its pushes a second, and first pushes go before repetitions`() throws {
        var plan = RefreshPushes(tries: 3, perSecond: 10)
        let first = RefreshPushes.Contact(DeviceID(rawValue: 1), until: at(1000))
        let value5 = plan.found(first, lead: lead, now: at(840))
        #expect(value5)
        _ = plan.sent(first, of: app, allowed: 3, now: at(840))
        let dueAgain = plan.nextDue(now: at(940))
        let again = try #require(dueAgain)
        #expect(again.tries == 1)
        let repeated = (1...20).count { _ in plan.admits(again, of: app, now: at(940)) }
        #expect(repeated == 5)
        let others = (1...20).count { _ in plan.admits(first, of: app, now: at(940)) }
        #expect(others == 5)
        // Another app has its own limit, and a second later there is room again.
        let value6 = plan.admits(first, of: apps[1].id, now: at(940))
        #expect(value6)
        let value7 = (1...20).count { _ in plan.admits(first, of: app, now: at(942)) }
        #expect(value7 == 10)
    }

    @Test func `what is held back comes later, counts once, and ends at the expiry`() throws {
        var plan = RefreshPushes(tries: 3, perSecond: 10)
        var contact = RefreshPushes.Contact(DeviceID(rawValue: 1), until: at(1000))
        let value8 = plan.heldBack(contact, of: app, now: at(840))
        #expect(value8)
        var held = 1
        for second in 841...1002 {
            guard let due = plan.nextDue(now: at(second)) else { continue }
            contact = due
            guard contact.expiry > at(second) else {
                // A phone without a push is none of the phones that did not come.
                let value9 = plan.expired(contact)
                #expect(!value9)
                break
            }
            let value10 = plan.heldBack(contact, of: app, now: at(second))
            #expect(!value10)
            held += 1
        }
        #expect((3...20).contains(held) && plan.count == 0)
        #expect(plan.figures[app]?.heldBack == 1 && plan.figures[app]?.never == 0)
    }

    // MARK: Restarts

    /// A daemon that is killed again and again must not push the same phones each time.
    @Test func `what was due at the start waits for half of the rest`() {
        var plan = RefreshPushes(tries: 3, perSecond: 500)
        plan.started(now: at(840))
        let old = RefreshPushes.Contact(DeviceID(rawValue: 1), until: at(1000))
        let value11 = plan.found(old, lead: lead, now: at(845))
        #expect(!value11)
        let value12 = plan.nextDue(now: at(920))
        #expect(value12 == nil)
        let value13 = plan.nextDue(now: at(935))?.tries
        #expect(value13 == 0)
        let later = RefreshPushes.Contact(DeviceID(rawValue: 2), until: at(1025))
        let value14 = plan.found(later, lead: lead, now: at(846))
        #expect(value14)
    }

    // MARK: Figures

    @Test func `figures say after which push a phone came`() throws {
        var plan = RefreshPushes(tries: 3, perSecond: 500)
        let contact = RefreshPushes.Contact(DeviceID(rawValue: 1), until: at(1000))
        let value15 = plan.came(contact)
        #expect(value15 == 0)
        _ = plan.sent(contact, of: app, allowed: 3, now: at(840))
        let dueSecond = plan.nextDue(now: at(940))
        let second = try #require(dueSecond)
        _ = plan.sent(second, of: app, allowed: 3, now: at(940))
        let dueThird = plan.nextDue(now: at(980))
        let third = try #require(dueThird)
        let value16 = plan.came(third)
        #expect(value16 == 2)
        let figures = try #require(plan.figures[app])
        #expect(figures.sent == [1, 1, 0] && figures.came == [0, 1, 0] && figures.never == 0)
    }
}
