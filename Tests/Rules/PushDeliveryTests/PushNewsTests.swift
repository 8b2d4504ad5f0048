@testable import PushDelivery
import Testing
import Timekeeping

@Suite("News of push apps")
struct PushNewsTests {
    private static let start = Instant(nanoseconds: 1_000_000_000)
    private static let refused = PushOutcome.credentialsRefused("InvalidProviderToken")

    private static func desk() -> PushNewsDesk {
        var desk = PushNewsDesk()
        desk.isOn = true
        return desk
    }

    @Test func `refused credentials are reported once, and their acceptance too`() {
        var desk = Self.desk()
        for _ in 0..<5 { desk.finished(Self.refused, app: "apns", now: Self.start) }
        #expect(desk.take() == [.credentialsRefused(app: "apns", reason: "InvalidProviderToken")])
        desk.finished(.retry(after: nil), app: "apns", now: Self.start)
        desk.finished(.tokenDead(since: nil), app: "apns", now: Self.start)
        #expect(desk.take().isEmpty)
        for _ in 0..<5 { desk.finished(.accepted(nil), app: "apns", now: Self.start) }
        #expect(desk.take() == [.credentialsAccepted(app: "apns")])
    }

    @Test func `apps do not share their standing`() {
        var desk = Self.desk()
        desk.finished(Self.refused, app: "apns", now: Self.start)
        desk.finished(.accepted(nil), app: "fcm", now: Self.start)
        desk.finished(Self.refused, app: "fcm", now: Self.start)
        #expect(desk.take().map(\.app) == ["apns", "fcm"])
    }

    @Test func `a server that changes its mind all the time causes few events, and the last state is told`() {
        var desk = Self.desk()
        for _ in 0..<1000 {
            desk.finished(Self.refused, app: "webpush", now: Self.start)
            desk.finished(.accepted(nil), app: "webpush", now: Self.start)
            desk.breaker(isOpen: true, app: "webpush", problem: nil, now: Self.start)
        }
        #expect(desk.take().count == PushNewsDesk.burst)
        let later = Self.start + .seconds(61)
        desk.finished(.accepted(nil), app: "webpush", now: later)
        desk.finished(Self.refused, app: "webpush", now: later)
        #expect(desk.take().last == .credentialsRefused(app: "webpush", reason: "InvalidProviderToken"))
    }

    @Test func `nothing is collected while nobody wants events`() {
        var desk = PushNewsDesk()
        desk.finished(Self.refused, app: "apns", now: Self.start)
        desk.breaker(isOpen: true, app: "apns", problem: "x", now: Self.start)
        #expect(desk.take().isEmpty)
    }

    @Test func `a breaker names its reason`() {
        var desk = Self.desk()
        desk.breaker(isOpen: true, app: "fcm", problem: "connection refused", now: Self.start)
        desk.breaker(isOpen: false, app: "fcm", problem: nil, now: Self.start)
        #expect(
            desk.take() == [.breakerOpened(app: "fcm", reason: "connection refused"), .breakerClosed(app: "fcm")])
    }
}
