import Addressing
import PushDelivery
import Timekeeping

/// A push of the last minute whose provider has answered, with the time until the answer.
package struct SlowPush: Codable, Sendable {
    package var provider: String
    package var device: String
    package var milliseconds: Int64
    /// The HTTP status of the provider's answer to the push.
    package var status: Int

    package init(provider: String, device: String, milliseconds: Int64, status: Int) {
        (self.provider, self.device, self.milliseconds, self.status) = (provider, device, milliseconds, status)
    }
}

/// The slowest pushes of the last minute; pushes are noted only while an operator examines them.
struct SlowPushes {
    private var pushes: [(at: Instant, device: DeviceID, push: SlowPush)] = []
    private var until = Instant.distantPast

    private static let age: Duration = .seconds(60)
    private static let patience: Duration = .seconds(10)
    private static let limit = 20

    func isWanted(now: Instant) -> Bool { now < until }

    mutating func note(_ event: PushDispatcher.Event, now: Instant) {
        guard isWanted(now: now), case .answered(let transmission, let answer, let wait) = event else { return }
        drop(before: now)
        let push = SlowPush(
            provider: transmission.push.token.provider.rawValue, device: transmission.push.device.name,
            milliseconds: wait.nanoseconds / 1_000_000, status: answer.status)
        pushes.append((now, transmission.push.device, push))
        pushes.sort { $0.push.milliseconds > $1.push.milliseconds }
        if pushes.count > Self.limit { pushes.removeLast() }
    }

    private mutating func drop(before now: Instant) { pushes.removeAll { now - $0.at > Self.age } }

    /// Returns the slowest pushes of the last minute. The pushes of the next ten seconds are noted for the operator's
    /// next query.
    mutating func look(now: Instant) -> [(device: DeviceID, push: SlowPush)] {
        if !isWanted(now: now) { pushes = [] }
        until = now + Self.patience
        drop(before: now)
        return pushes.map { ($0.device, $0.push) }
    }
}
