import ProxyRuntime
import Reactor
import Telemetry
import Timekeeping

/// Refuses new connections of untrusted peers while the process uses four fifths of its memory limit (F11). Existing
/// connections and UDP are still served while memory is short.
///
/// - The class is `@unchecked Sendable`, because only the daemon's loop uses it.
final class MemoryGuard: @unchecked Sendable {
    private let budget: Int
    private let streams: StreamFlows
    private let loop: EventLoop
    private let log: Log
    private var timer: LoopTimer?

    private static let pause: Duration = .seconds(1)

    /// Creates the memory guard; `nil` if neither the settings nor the system limit the memory.
    init?(setting: Int, _ streams: StreamFlows, on loop: EventLoop, log: Log) throws(SystemError) {
        guard let budget = setting > 0 ? setting : MemoryUse.allowed else { return nil }
        self.budget = budget
        self.streams = streams
        self.loop = loop
        self.log = log
        timer = try LoopTimer(on: loop) { [weak self] in self?.look() }
        look()
    }

    private func look() {
        timer?.arm(at: loop.now + Self.pause)
        let used = MemoryUse.resident
        let isTight = used > budget / 5 * 4
        guard isTight != streams.refusesStrangers else { return }
        streams.refusesStrangers = isTight
        if isTight {
            log.warning(
                "memory is short, so the daemon refuses new connections",
                [.bytes: .number(used), .count: .number(budget)])
        } else {
            log.notice("enough memory is free again, so the daemon accepts new connections", [.bytes: .number(used)])
        }
    }
}
