import Addressing
import Crypto
import Glibc
import Reactor

/// Compares one thread for TLS handshakes with two threads. A server in this process does the handshakes, and no work
/// except that.
///
/// The phones need as much processor time as the server. Unless the machine has processors for both, the measured rates
/// say little, and the processor time of each thread shows what the threads could do.
enum HandshakeBenchmark {
    private static let window = 64
    private static let loopName = "server"
    private static let threadName = "handshakes"

    /// The figures of all rounds with the same number of threads.
    private struct Rounds {
        var rates: [Double] = []
        /// The processor time of a handshake on its thread, and on the loop's thread, in microseconds.
        var costs: [Double] = []
        var loopCosts: [Double] = []

        /// The handshakes a second if each thread had a processor of its own.
        func possibleRate(threads: Int) -> Double {
            min(Double(threads) / max(costs.median, 0.001), 1 / max(loopCosts.median, 0.001)) * 1e6
        }
    }

    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        var one = Rounds()
        var two = Rounds()
        for _ in 0..<options.rounds {
            try measure(threads: 1, options, into: &one)
            try measure(threads: 2, options, into: &two)
        }
        for (name, rounds) in [("one thread", one), ("two threads", two)] {
            report.add("tls", "full handshakes by \(name)", "/s", rounds.rates)
            report.add("tls", "full handshakes by \(name), CPU of the threads", "µs", rounds.costs)
            report.add("tls", "full handshakes by \(name), CPU of the loop", "µs", rounds.loopCosts)
        }
        report.add("tls", "rate of two threads, of the rate of one", "ratio", two.rates.median / one.rates.median)
        report.add(
            "tls", "rate of two threads with a processor for each thread, of the rate of one", "ratio",
            two.possibleRate(threads: 2) / one.possibleRate(threads: 1))
    }

    private static func measure(
        threads: Int, _ options: BenchmarkOptions, into rounds: inout Rounds
    ) throws(BenchmarkError) {
        let server = try Server(threads: threads)
        defer { server.close() }
        let load = try ConnectionLoad(to: server.local, isSecure: true, givesWay: true)
        defer { load.close() }
        // The first connections start the threads.
        _ = try load.open(10 * window, window: window)
        let before = try ThreadFigures(of: getpid())
        let result = try load.open(options.phones, window: window)
        let after = try ThreadFigures(of: getpid())
        let count = Double(options.phones)
        rounds.rates.append(count / result.time.seconds)
        rounds.costs.append(after.time(of: threadName, since: before).seconds * 1e6 / count)
        rounds.loopCosts.append(after.time(of: loopName, since: before).seconds * 1e6 / count)
    }

    /// A TLS server that answers each keep-alive.
    ///
    /// - The class is `@unchecked Sendable`, because only its loop's thread uses it after the start.
    private final class Server: @unchecked Sendable {
        let local: Endpoint
        private let loop: EventLoop
        private var listener: StreamListener?
        private var connections: [UInt64: StreamConnection] = [:]

        private static let pong = Array("\r\n".utf8)

        init(threads: Int) throws(BenchmarkError) {
            do {
                loop = try EventLoop()
                loop.handshakeThreadLimit = threads
                let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
                let context = try TLSContext.server(
                    certificate: .bytes(identity.certificate), key: .bytes(identity.key))
                var limits = StreamConnection.Limits()
                limits.turn = .connections
                weak var server: Server?
                let listener = try StreamListener(
                    boundTo: Endpoint(.loopbackV4, 0), on: loop, tls: context, limit: 10_000, connectionLimits: limits
                ) { server?.accept($0) }
                local = listener.local
                self.listener = listener
                server = self
                try loop.start(name: loopName, niceness: 0)
            } catch {
                throw BenchmarkError("no TLS server: \(error)")
            }
        }

        private func accept(_ connection: StreamConnection) {
            connections[connection.id] = connection
            try? connection.start(
                StreamConnection.Handlers(
                    connected: { _ in },
                    received: { connection, bytes in
                        connection.send(Self.pong)
                        return bytes.count
                    }, closed: { [unowned self] connection, _ in connections[connection.id] = nil }))
        }

        func close() {
            loop.post { [self] in
                listener = nil
                connections = [:]
            }
            loop.stop()
            loop.join()
        }
    }
}
