import Addressing
import Crypto
import Foundation
import Reactor
import Timekeeping

/// Phones that connect to the daemon by TCP or TLS, each with its own connection. The load runs on its own thread, so
/// that measured calls do not wait for the load.
///
/// - The class is `@unchecked Sendable`, because only its loop uses it, except for the methods of the measuring thread.
final class ConnectionLoad: @unchecked Sendable {
    struct Result: Sendable {
        var count = 0
        var failures = 0
        /// Why a connection failed.
        var reason = ""
        /// The number of connections that resumed an earlier TLS session.
        var resumed = 0
        var time: Duration = .zero
        var latency = Samples()
    }

    private let loop: EventLoop
    private let target: Endpoint
    /// The TLS context of the phones; `nil` for plain TCP.
    private let context: TLSContext?
    private let registers: MessageTemplate

    /// The phones with open connections; the index of a phone is the number of its user.
    private var kept: [Phone] = []
    /// The phones whose connections are being opened.
    private var opening: [ObjectIdentifier: Phone] = [:]
    private var keeps = false
    private var closing: LoopTimer?
    private var resumes = false
    /// The most recent TLS session, whose ticket later connections may use.
    private var earlier: TLSSession?

    private var waiting = 0
    private var underWay = 0
    private var sent = 0
    private var began = Instant.distantPast
    private var result = Result()
    private let finished = Locked(Result?.none)

    /// A phone with its connection, and the answer for which it waits.
    private final class Phone {
        var stream: StreamConnection?
        var since = Instant.distantPast
        var answer: [UInt8] = []
        var isWaiting = true
    }

    private static let ping = Array("\r\n\r\n".utf8)
    private static let pong = Array("\r\n".utf8)
    private static let success = Array("SIP/2.0 200 ".utf8)
    private static let patience: Duration = .seconds(60)

    /// Prepares the load and starts its thread.
    ///
    /// - Parameters:
    ///   - daemon: the daemon to which the phones connect.
    ///   - isSecure: whether the phones use TLS.
    ///   - givesWay: whether this load's thread has a lower priority than the daemon and the measured calls.
    /// - Throws: ``BenchmarkError`` if the daemon does not listen for TCP and TLS.
    convenience init(at daemon: ServerProcess, isSecure: Bool, givesWay: Bool = false) throws(BenchmarkError) {
        guard let streams = daemon.streams else { throw BenchmarkError("the daemon takes no connections") }
        try self.init(to: isSecure ? streams.tls : streams.tcp, isSecure: isSecure, givesWay: givesWay)
    }

    /// Prepares the load for a server at the given address.
    init(to target: Endpoint, isSecure: Bool, givesWay: Bool = false) throws(BenchmarkError) {
        _ = ProcessDescriptors.raiseLimit()
        self.target = target
        registers = MessageTexts.register(from: Endpoint(.loopbackV4, 5060), over: isSecure ? "tls" : "tcp")
        do {
            context = isSecure ? try TLSContext.client(verifiesPeer: false) : nil
            loop = try EventLoop()
            try loop.start(name: "connections", niceness: givesWay ? 19 : 0)
        } catch {
            throw BenchmarkError("no loop for connections: \(error)")
        }
    }

    // MARK: Called by the measuring thread

    /// Opens connections, and waits until all are open. A connection counts as open when its first keep-alive is
    /// answered, because its TLS ticket has then arrived.
    ///
    /// - Parameters:
    ///   - count: the number of connections.
    ///   - window: the maximum number of connections that are being opened at the same time.
    ///   - keeps: whether the connections stay open.
    ///   - resumes: whether connections use the TLS ticket of an earlier connection.
    /// - Returns: the number of connections, their durations, and the total time.
    /// - Throws: ``BenchmarkError`` if one of the connections failed.
    func open(_ count: Int, window: Int, keeps: Bool = false, resumes: Bool = false) throws(BenchmarkError) -> Result {
        startOpening(count, window: window, keeps: keeps, resumes: resumes)
        return try finish()
    }

    /// Starts to open connections; ``finish()`` waits until they are open.
    func startOpening(_ count: Int, window: Int, keeps: Bool = false, resumes: Bool = false) {
        begin(count) { [self] in
            self.keeps = keeps
            self.resumes = resumes
            for _ in 0..<min(count, window) { connect() }
        }
    }

    /// Sends REGISTERs on one open connection after the other, with at most `window` unanswered REGISTERs.
    func register(_ count: Int, window: Int) throws(BenchmarkError) -> Result {
        begin(count) { [self] in
            for _ in 0..<min(count, window, kept.count) { sendRegister() }
        }
        return try finish()
    }

    func finish() throws(BenchmarkError) -> Result {
        let limit = SystemClock.now + Self.patience
        while SystemClock.now < limit {
            if let result = finished.withLock({ $0 }) {
                guard result.failures == 0 else {
                    throw BenchmarkError("\(result.failures) connections failed: \(result.reason)")
                }
                return result
            }
            Thread.sleep(forTimeInterval: 0.001)
        }
        throw BenchmarkError("the daemon does not answer on connections any more")
    }

    /// Closes the connections that are still open.
    func closeAll() throws(BenchmarkError) {
        startClosing(after: .zero)
        _ = try finish()
    }

    /// Starts to close the connections after a pause; ``finish()`` waits until they are closed.
    func startClosing(after pause: Duration) {
        begin(1) { [self] in
            // An error means that memory for a timer is lacking, and the benchmark then cannot run anyway.
            closing = try? loop.schedule(at: loop.now + pause) { [unowned self] in
                for phone in kept { phone.stream?.close() }
                kept = []
                waiting = 0
                endIfDone()
            }
        }
    }

    /// Ends the load's thread; called before the object is released.
    func close() {
        loop.stop()
        loop.join()
    }

    private func begin(_ count: Int, _ job: @escaping @Sendable () -> Void) {
        finished.withLock { $0 = nil }
        loop.post { [self] in
            result = Result()
            waiting = count
            began = loop.now
            job()
            endIfDone()
        }
    }

    // MARK: On the loop

    private func connect() {
        guard waiting > 0 else { return }
        (waiting, underWay) = (waiting - 1, underWay + 1)
        let phone = Phone()
        phone.since = loop.now
        opening[ObjectIdentifier(phone)] = phone
        do {
            let session = try context?.makeClientSession(host: "127.0.0.1")
            if resumes, let session, let earlier { try session.resume(earlier) }
            phone.stream = try StreamConnection.connect(
                to: target, on: loop, tls: session,
                handlers: StreamConnection.Handlers(
                    connected: { $0.send(Self.ping) },
                    received: { [unowned self, unowned phone] _, bytes in
                        received(bytes, by: phone)
                        return bytes.count
                    }, closed: { [unowned self, unowned phone] _, reason in broke(phone, "\(reason)") }))
        } catch {
            broke(phone, "\(error)")
        }
    }

    private func sendRegister() {
        guard waiting > 0 else { return }
        (waiting, underWay) = (waiting - 1, underWay + 1)
        let number = sent % kept.count
        let phone = kept[number]
        phone.since = loop.now
        phone.isWaiting = true
        phone.stream?.send(
            registers.message(user: number, cseq: 1 + sent / kept.count, branch: UInt64(sent)))
        sent += 1
    }

    private func received(_ bytes: Span<UInt8>, by phone: Phone) {
        for index in 0..<bytes.count { phone.answer.append(bytes[index]) }
        let isOpening = opening[ObjectIdentifier(phone)] != nil
        if isOpening {
            guard phone.answer == Self.pong else { return }
            opened(phone)
        } else {
            // The answer ends with its head, because the 200 to a REGISTER has no body.
            guard phone.answer.suffix(Self.ping.count) == Self.ping[...] else { return }
            if !phone.answer.starts(with: Self.success) { result.failures += 1 }
        }
        phone.answer.removeAll(keepingCapacity: true)
        phone.isWaiting = false
        result.count += 1
        result.latency.add(from: phone.since, to: loop.now)
        underWay -= 1
        if isOpening { connect() } else { sendRegister() }
        endIfDone()
    }

    private func opened(_ phone: Phone) {
        opening[ObjectIdentifier(phone)] = nil
        if let session = phone.stream?.tls {
            if session.isResumed { result.resumed += 1 } else { earlier = session }
        }
        if keeps { kept.append(phone) } else { phone.stream?.close() }
    }

    private func broke(_ phone: Phone, _ reason: String) {
        opening[ObjectIdentifier(phone)] = nil
        result.failures += 1
        result.reason = reason
        guard phone.isWaiting else { return }
        phone.isWaiting = false
        underWay -= 1
        endIfDone()
    }

    private func endIfDone() {
        // A failed connection ends the benchmark's round early.
        guard underWay == 0, waiting == 0 || result.failures > 0 else { return }
        result.time = loop.now - began
        let result = result
        finished.withLock { $0 = result }
    }
}
