package import Addressing
import Timekeeping

/// One server of an upstream, as the look-up found it (RFC 3263).
package struct UpstreamServer: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint

    package init(transport: Transport, endpoint: Endpoint) {
        self.transport = transport
        self.endpoint = endpoint
    }
}

/// Whether requests are sent to one server: the breaker opens when the server fails, and then one request tries it
/// after each pause.
struct ServerBreaker: Sendable {
    let server: UpstreamServer
    /// Whether the last look-up named the server.
    var isListed = true
    /// Whether the watch by OPTIONS says that the server is down.
    private(set) var isDown = false
    private var failures: UInt8 = 0
    private var pauses: UInt8 = 0
    private var openUntil: Instant?
    private var isTrying = false

    /// So many failures in a row open the breaker.
    private static let patience: UInt8 = 5
    private static let longestWish: Duration = .seconds(3600)

    init(server: UpstreamServer) { self.server = server }

    /// Whether the server has failed, and is tried after a pause.
    var isPaused: Bool { openUntil != nil }

    /// Whether a request may be sent now.
    func isUsable(now: Instant) -> Bool {
        isListed && !isDown && (openUntil.map { $0 <= now && !isTrying } ?? true)
    }

    /// When the server is tried again; `nil` if a trial or the watch will tell.
    var opensAt: Instant? { isListed && !isDown && !isTrying ? openUntil : nil }

    mutating func used() { if openUntil != nil { isTrying = true } }

    mutating func answered() {
        (failures, pauses, openUntil, isTrying) = (0, 0, nil, false)
    }

    /// A request ended without saying anything about the server.
    mutating func leftOpen() { isTrying = false }

    /// - Parameters:
    ///   - wish: the pause that the server asked for in Retry-After.
    ///   - jitter: a number between 0 and 1.
    ///   - now: when the failure was noticed.
    /// - Returns: whether the breaker opened.
    mutating func failed(wish: UInt32?, jitter: Double, now: Instant) -> Bool {
        guard openUntil == nil || isTrying else { return false }
        failures = failures &+ 1
        guard isTrying || wish != nil || failures >= Self.patience else { return false }
        let wasOpen = openUntil != nil
        isTrying = false
        failures = 0
        let pause = wish.map { min(Duration.seconds(max($0, 1)), Self.longestWish) } ?? Backoff.pause(pauses, jitter)
        pauses = min(pauses + 1, 16)
        openUntil = now + pause
        return !wasOpen
    }

    /// - Returns: whether that was news.
    mutating func wentDown() -> Bool {
        defer { isDown = true }
        return !isDown
    }

    /// - Returns: whether the server was down.
    mutating func cameBack() -> Bool {
        let wasDown = isDown
        isDown = false
        answered()
        return wasDown
    }
}

enum Backoff {
    static let longest: Duration = .seconds(300)

    /// Pauses of 2, 4, 8 seconds and so on up to five minutes, shortened by up to half.
    static func pause(_ count: UInt8, _ jitter: Double, longest: Duration = longest) -> Duration {
        let whole = min(Duration.seconds(Int64(2) << Int64(min(count, 20))), longest)
        return .nanoseconds(Int64(Double(whole.nanoseconds) * (1 - jitter / 2)))
    }
}
