import Testing
import Timekeeping

@testable import PushDelivery

@Suite("Credentials of all apps")
struct PushCredentialsTests {
    private func app(_ number: Int) -> PushApp.ID { PushApp.ID(index: number) }
    private func at(_ seconds: Int) -> Moment {
        Moment(
            instant: Instant(nanoseconds: 0) + .seconds(seconds),
            date: UnixTime(seconds: 1_790_000_000 + Int64(seconds)))
    }
    private let order = PushCredentials.Order(number: 0, origin: nil)

    @Test func `an app without a credential needs none, and a fixed one is ready at once`() {
        var credentials = PushCredentials([.none, .fixed("key=1")])
        #expect(credentials.wanted(by: app(0), at: nil, now: at(0)) == .ready(nil))
        #expect(credentials.wanted(by: app(1), at: nil, now: at(0)) == .ready("key=1"))
        #expect(credentials.wanted(by: app(2), at: nil, now: at(0)) == .ready(nil))
    }

    @Test func `apps with the same key wait for one credential, which is made once`() {
        var credentials = PushCredentials([.made(0), .made(0)], kinds: [.apple])
        #expect(credentials.wanted(by: app(0), at: nil, now: at(0)) == .later(order, isNew: true))
        #expect(credentials.wanted(by: app(1), at: nil, now: at(0)) == .later(order, isNew: false))
        credentials.made(order, "bearer 1", life: nil, now: at(1))
        #expect(credentials.wanted(by: app(1), at: nil, now: at(2)) == .ready("bearer 1"))
        // The credential must be renewed before it is an hour old, because Apple accepts no credential that is older
        // than an hour.
        #expect(credentials.wanted(by: app(1), at: nil, now: at(2500)) == .later(order, isNew: true))
    }

    @Test func `a failure ends the pushes that wait, and its problem is reported for a while`() {
        var credentials = PushCredentials([.made(0)], kinds: [.accessToken])
        _ = credentials.wanted(by: app(0), at: nil, now: at(0))
        credentials.failed(order, .credentialsRefused("no"), problem: "the token service says no", now: at(0).instant)
        #expect(
            credentials.wanted(by: app(0), at: nil, now: at(59))
                == .none(.credentialsRefused("no"), problem: "the token service says no"))
        #expect(credentials.wanted(by: app(0), at: nil, now: at(61)) == .later(order, isNew: true))
    }

    @Test func `Google's credential is fetched again before its end, and after a refusal`() {
        var credentials = PushCredentials([.made(0)], kinds: [.accessToken])
        _ = credentials.wanted(by: app(0), at: nil, now: at(0))
        credentials.made(order, "Bearer 1", life: .seconds(3600), now: at(0))
        #expect(credentials.nextRenewal == at(3300).instant)
        #expect(credentials.renewals(now: at(3299).instant) == [])
        #expect(credentials.renewals(now: at(3300).instant) == [order])
        credentials.made(order, "Bearer 2", life: .seconds(3600), now: at(3301))
        credentials.refused("Bearer 1", by: app(0), now: at(3302).instant)
        #expect(credentials.wanted(by: app(0), at: nil, now: at(3303)) == .ready("Bearer 2"))
        credentials.refused("Bearer 2", by: app(0), now: at(3400).instant)
        #expect(credentials.wanted(by: app(0), at: nil, now: at(3401)) == .later(order, isNew: true))
    }

    @Test func `after a reload credentials of the same keys stay, and orders of former keys are for nobody`() {
        var credentials = PushCredentials([.made(0), .made(1)], kinds: [.apple, .accessToken])
        for number in 0...1 { _ = credentials.wanted(by: app(number), at: nil, now: at(0)) }
        credentials.made(order, "bearer 1", life: nil, now: at(0))
        credentials.changed(to: PushCredentials([.made(0), .made(2)], kinds: [0: .apple, 2: .accessToken]))
        #expect(credentials.wanted(by: app(0), at: nil, now: at(1)) == .ready("bearer 1"))
        let former = PushCredentials.Order(number: 1, origin: nil)
        let next = PushCredentials.Order(number: 2, origin: nil)
        #expect(!credentials.has(1) && credentials.has(2))
        credentials.made(former, "Bearer of the former key", life: .seconds(3600), now: at(1))
        #expect(credentials.wanted(by: app(1), at: nil, now: at(1)) == .later(next, isNew: true))
        credentials.changed(to: PushCredentials([.fixed("key=1"), .none], kinds: [:]))
        #expect(credentials.wanted(by: app(0), at: nil, now: at(2)) == .ready("key=1"))
        #expect(credentials.wanted(by: app(1), at: nil, now: at(2)) == .ready(nil))
    }

    @Test func `web push has a token for each server`() {
        var credentials = PushCredentials([.made(0)], kinds: [.webPush])
        #expect(credentials.wanted(by: app(0), at: nil, now: at(0)) == .ready(nil))
        let orders = ["https://a", "https://b"].map { PushCredentials.Order(number: 0, origin: $0) }
        for order in orders {
            #expect(credentials.wanted(by: app(0), at: order.origin, now: at(0)) == .later(order, isNew: true))
            #expect(credentials.wanted(by: app(0), at: order.origin, now: at(0)) == .later(order, isNew: false))
        }
        credentials.made(orders[0], "vapid a", life: nil, now: at(0))
        #expect(credentials.wanted(by: app(0), at: "https://a", now: at(12 * 3600 - 1)) == .ready("vapid a"))
        #expect(
            credentials.wanted(by: app(0), at: "https://a", now: at(12 * 3600 + 1)) == .later(orders[0], isNew: true))
        credentials.failed(orders[1], .retry(after: nil), problem: nil, now: at(1).instant)
        #expect(credentials.wanted(by: app(0), at: "https://b", now: at(2)) == .later(orders[1], isNew: true))
    }
}
