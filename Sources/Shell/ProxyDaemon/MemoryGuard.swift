import ProxyRuntime
import Reactor
import Telemetry
import Timekeeping

/// Takes no new connections while the process has four fifths of the memory that it may have (F11): what it has already is
/// served, and datagrams keep nothing open.
///
/// - `@unchecked Sendable` because it lives on the daemon's loop and is used there alone.
final class MemoryGuard: @unchecked Sendable {
    private let budget: Int
    private let streams: StreamFlows
    private let loop: EventLoop
    private let log: Log
    private var timer: LoopTimer?

    private static let pause: Duration = .seconds(1)

    /// `nil` where neither the settings nor the system have a limit.
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
            log.warning("memory is short, no connections are taken", [.bytes: .number(used), .count: .number(budget)])
        } else {
            log.notice("memory suffices again, connections are taken", [.bytes: .number(used)])
        }
    }
}
