import Addressing
import Foundation
import Reactor
import Timekeeping

/// Sends token reports on connections that stay open. Each connection sends its next report when the last report was
/// answered (a closed loop). The load runs on its own thread, so that measured calls do not wait for the load.
///
/// - The class is `@unchecked Sendable`, because only its loop uses it, except for the methods of the measuring thread.
final class ReportLoad: @unchecked Sendable {
    struct Result: Sendable {
        var count = 0
        var failures = 0
        var time: Duration = .zero
        var latency = Samples()
    }

    private let loop: EventLoop
    private let daemon: Endpoint
    private let key: String
    private var connections: [Connection] = []
    private var isRunning = false
    private var began = Instant.distantPast
    private var lastUser = 0
    private var result = Result()

    /// A connection, and the instant at which its unanswered report was sent.
    private final class Connection {
        var stream: StreamConnection?
        var sent = Instant.distantPast
        /// The part of the answer that has arrived.
        var answer: [UInt8] = []
    }

    private static let end = Array("\r\n\r\n".utf8)
    private static let success = Array("HTTP/1.1 200 ".utf8)

    init(at daemon: ServerProcess) throws(BenchmarkError) {
        guard let api = daemon.api else { throw BenchmarkError("the daemon serves no API") }
        (self.daemon, key) = (api.endpoint, api.key)
        do throws(SystemError) {
            loop = try EventLoop()
            try loop.start(name: "reports")
        } catch {
            throw BenchmarkError("no loop for reports: \(error)")
        }
    }

    // MARK: Called by the measuring thread

    func start(connections count: Int) {
        loop.post {
            self.result = Result()
            self.isRunning = true
            self.began = self.loop.now
            for _ in 0..<count { self.open() }
        }
    }

    /// Stops sending token reports.
    ///
    /// - Returns: the figures of the answered reports; unanswered reports are dropped.
    func stop() throws(BenchmarkError) -> Result {
        let done = Locked(Result?.none)
        loop.post { self.end { result in done.withLock { $0 = result } } }
        let limit = SystemClock.now + .seconds(10)
        while SystemClock.now < limit {
            if let result = done.withLock({ $0 }) {
                guard result.failures == 0 else { throw BenchmarkError("\(result.failures) reports failed") }
                return result
            }
            Thread.sleep(forTimeInterval: 0.001)
        }
        throw BenchmarkError("the daemon does not answer reports any more")
    }

    func close() {
        loop.stop()
        loop.join()
    }

    // MARK: On the loop

    private func open() {
        let connection = Connection()
        do throws(SystemError) {
            connection.stream = try StreamConnection.connect(
                to: daemon, on: loop,
                handlers: StreamConnection.Handlers(
                    connected: { [unowned self, unowned connection] _ in report(on: connection) },
                    received: { [unowned self, unowned connection] _, bytes in
                        received(bytes, on: connection)
                        return bytes.count
                    }, closed: { [unowned self] _, _ in if isRunning { result.failures += 1 } }))
            connections.append(connection)
        } catch {
            result.failures += 1
        }
    }

    private func report(on connection: Connection) {
        lastUser += 1
        connection.sent = loop.now
        let body =
            "username=r\(lastUser)&selector=S%3A\(lastUser)&token_calls=Udl99X2JFP1bWwS5gR%2F\(lastUser)&appid_calls=a.voip"
        connection.stream?.send(
            Array(
                ("POST /v1/push-tokens HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer \(key)\r\n"
                    + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
                    + body).utf8))
    }

    private func received(_ bytes: Span<UInt8>, on connection: Connection) {
        for index in 0..<bytes.count { connection.answer.append(bytes[index]) }
        // The answer ends with its head, because the answer to a successful report has no body.
        guard connection.answer.suffix(Self.end.count) == Self.end[...] else { return }
        if connection.answer.starts(with: Self.success) { result.count += 1 } else { result.failures += 1 }
        connection.answer.removeAll(keepingCapacity: true)
        result.latency.add(from: connection.sent, to: loop.now)
        if isRunning { report(on: connection) }
    }

    private func end(_ done: (Result) -> Void) {
        isRunning = false
        result.time = loop.now - began
        for connection in connections { connection.stream?.close() }
        connections = []
        done(result)
    }
}
