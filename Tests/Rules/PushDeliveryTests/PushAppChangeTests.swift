@testable import PushDelivery
import Testing
import Timekeeping

@Suite("Changes of push apps")
struct PushAppChangeTests {
    private static let start = Instant(nanoseconds: 1_000_000_000)
    private static let refused = PushOutcome.credentialsRefused("InvalidProviderToken")

    private static func monitor() -> PushAppMonitor {
        var monitor = PushAppMonitor()
        monitor.isOn = true
        return monitor
    }

    @Test func `refused credentials are reported once, and their acceptance too`() {
        var monitor = Self.monitor()
        for _ in 0..<5 { monitor.finished(Self.refused, app: "apns", now: Self.start) }
        #expect(monitor.take() == [.credentialsRefused(app: "apns", reason: "InvalidProviderToken")])
        monitor.finished(.retry(after: nil), app: "apns", now: Self.start)
        monitor.finished(.tokenDead(since: nil), app: "apns", now: Self.start)
        #expect(monitor.take().isEmpty)
        for _ in 0..<5 { monitor.finished(.accepted(nil), app: "apns", now: Self.start) }
        #expect(monitor.take() == [.credentialsAccepted(app: "apns")])
    }

    @Test func `apps do not share their standing`() {
        var monitor = Self.monitor()
        monitor.finished(Self.refused, app: "apns", now: Self.start)
        monitor.finished(.accepted(nil), app: "fcm", now: Self.start)
        monitor.finished(Self.refused, app: "fcm", now: Self.start)
        #expect(monitor.take().map(\.app) == ["apns", "fcm"])
    }

    @Test func `a server that changes its mind all the time causes few events, and the last state is told`() {
        var monitor = Self.monitor()
        for _ in 0..<1000 {
            monitor.finished(Self.refused, app: "webpush", now: Self.start)
            monitor.finished(.accepted(nil), app: "webpush", now: Self.start)
            monitor.breaker(isOpen: true, app: "webpush", problem: nil, now: Self.start)
        }
        #expect(monitor.take().count == PushAppMonitor.burst)
        let later = Self.start + .seconds(61)
        monitor.finished(.accepted(nil), app: "webpush", now: later)
        monitor.finished(Self.refused, app: "webpush", now: later)
        #expect(monitor.take().last == .credentialsRefused(app: "webpush", reason: "InvalidProviderToken"))
    }

    @Test func `nothing is collected while nobody wants events`() {
        var monitor = PushAppMonitor()
        monitor.finished(Self.refused, app: "apns", now: Self.start)
        monitor.breaker(isOpen: true, app: "apns", problem: "x", now: Self.start)
        #expect(monitor.take().isEmpty)
    }

    @Test func `a breaker names its reason`() {
        var monitor = Self.monitor()
        monitor.breaker(isOpen: true, app: "fcm", problem: "connection refused", now: Self.start)
        monitor.breaker(isOpen: false, app: "fcm", problem: nil, now: Self.start)
        #expect(
            monitor.take() == [.breakerOpened(app: "fcm", reason: "connection refused"), .breakerClosed(app: "fcm")])
    }
}
