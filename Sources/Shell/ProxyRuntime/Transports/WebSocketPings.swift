import Collections
import Reactor
import Timekeeping

/// Pings WebSockets at regular intervals, and keeps them in the order of their next ping.
final class WebSocketPings {
    private let loop: EventLoop
    private let interval: Duration
    private let ask: (UInt64) -> Bool
    private var waiting = Queue<(number: UInt64, due: Instant)>()
    private var timer: LoopTimer?

    /// The number of WebSockets that are pinged before other connections have their turn.
    private static let inARow = 8

    /// Creates the timer of the WebSocket pings. The closure `ask` pings the connection with the given number, and
    /// returns whether the connection must be pinged again.
    init(on loop: EventLoop, every interval: Duration, ask: @escaping (UInt64) -> Bool) throws(SystemError) {
        self.loop = loop
        self.interval = interval
        self.ask = ask
        timer = try LoopTimer(on: loop, turn: .connections) { [weak self] in self?.timeIsUp() }
    }

    func add(_ number: UInt64) {
        waiting.append((number, loop.now + interval))
        arm()
    }

    private func timeIsUp() {
        let now = loop.now
        for _ in 0..<Self.inARow {
            guard let (number, due) = waiting.first, due <= now else { break }
            _ = waiting.popFirst()
            if ask(number) { waiting.append((number, now + interval)) }
        }
        arm()
    }

    private func arm() {
        if let (_, due) = waiting.first { timer?.arm(at: due) } else { timer?.disarm() }
    }
}
