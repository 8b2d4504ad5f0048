package import Addressing
import Timekeeping

/// One server of a PBX, as the DNS look-up found it (RFC 3263).
package struct UpstreamServer: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint

    package init(transport: Transport, endpoint: Endpoint) {
        self.transport = transport
        self.endpoint = endpoint
    }
}

/// A circuit breaker of one server: after failures, the server gets one REGISTER after each pause.
struct ServerBreaker: Sendable {
    let server: UpstreamServer
    /// Whether the last DNS look-up named the server.
    var isListed = true
    /// Whether the server is down, because it no longer answers OPTIONS.
    private(set) var isDown = false
    private var failures: UInt8 = 0
    private var pauses: UInt8 = 0
    private var openUntil: Instant?
    private var isTrying = false

    /// The number of consecutive failures after which the server gets only one request after each pause.
    private static let patience: UInt8 = 5
    private static let longestWish: Duration = .seconds(3600)

    init(server: UpstreamServer) { self.server = server }

    /// Whether the server has failed and not answered since, so that it gets only one request after each pause.
    var isPaused: Bool { openUntil != nil }

    /// Whether the registration client can send a REGISTER to the PBX's server now.
    func isUsable(now: Instant) -> Bool {
        isListed && !isDown && (openUntil.map { $0 <= now && !isTrying } ?? true)
    }

    /// When a failed server is tried again; `nil` if the server has not failed, is not listed, is down, or is being
    /// tried.
    var opensAt: Instant? { isListed && !isDown && !isTrying ? openUntil : nil }

    mutating func used() { if openUntil != nil { isTrying = true } }

    mutating func answered() {
        (failures, pauses, openUntil, isTrying) = (0, 0, nil, false)
    }

    /// Notes that a request was not sent, so that the request shows nothing about the server.
    mutating func leftOpen() { isTrying = false }

    /// Notes that the server did not answer a REGISTER, or answered with an error.
    ///
    /// - Parameters:
    ///   - wish: the pause, in seconds, that the server asked for in Retry-After.
    ///   - jitter: a number between 0 and 1.
    ///   - now: when the failure was noticed.
    /// - Returns: whether the circuit breaker has opened.
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

    /// Notes that the server no longer answers OPTIONS.
    ///
    /// - Returns: whether the server was treated as up before.
    mutating func wentDown() -> Bool {
        defer { isDown = true }
        return !isDown
    }

    /// Notes that the server answers OPTIONS, and forgets earlier failures.
    ///
    /// - Returns: whether the server was down before.
    mutating func cameBack() -> Bool {
        let wasDown = isDown
        isDown = false
        answered()
        return wasDown
    }
}

enum Backoff {
    static let longest: Duration = .seconds(300)

    /// The pause after a number of failures: 2, 4, 8 seconds and so on up to `longest`, shortened at random by up to
    /// half.
    static func pause(_ count: UInt8, _ jitter: Double, longest: Duration = longest) -> Duration {
        let whole = min(Duration.seconds(Int64(2) << Int64(min(count, 20))), longest)
        return .nanoseconds(Int64(Double(whole.nanoseconds) * (1 - jitter / 2)))
    }
}
