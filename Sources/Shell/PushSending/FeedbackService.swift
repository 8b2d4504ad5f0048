import Addressing
package import Bytes
import Crypto
import HTTPClient
package import ProxyCore
package import PushDelivery
package import Reactor
package import Registration
import Resolver
package import Telemetry
import Timekeeping

/// The result of one round of requests to feedback servers, as the log and the control socket show it.
package struct FeedbackReport: Codable, Hashable, Sendable {
    /// The number of records that Apple's feedback servers sent.
    package var records = 0
    package var contactsDropped = 0
    /// The number of contacts that stay, because they registered after their token died.
    package var ignoredAsOlder = 0
    /// The number of reported dead push tokens that belong to no contact.
    package var unknown = 0
    /// One sentence for each feedback server that could not be read completely.
    package var failures: [String] = []

    package init() {}
}

/// Asks Apple's feedback service, or another server, for dead tokens: at regular intervals, and when an operator orders
/// it.
///
/// A feedback server deletes its list when a client reads it, so records from before a failure are used too.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
package final class FeedbackService: @unchecked Sendable {
    /// Searches the contacts for dead tokens: see ``ProxyEngine/tokensReportedDead(_:from:limit:now:)``.
    package typealias Search = ([ByteString: UInt32], BindingCursor, Int) async -> DeadTokenFindings

    /// Makes the engine read the users with these tokens from the store of a cluster. The result is false if the store
    /// did not answer.
    package typealias Recall = (Set<ByteString>) async -> Bool

    private let loop: EventLoop
    private let log: Log
    private let search: Search
    private let recall: Recall?
    private var sources: [FeedbackSource]
    /// The last TLS context of each feedback server whose files could be used.
    private var contexts: [FeedbackSource: TLSContext] = [:]
    private let interval: Duration
    private let address: IPAddress?
    private let resolver: DNSResolver
    private var timer: LoopTimer?
    private var round: Round?

    /// One round of requests to all feedback servers, one after the other.
    ///
    /// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
    private final class Round: @unchecked Sendable {
        var report = FeedbackReport()
        var waiting: [(FeedbackReport) -> Void] = []
        var rest: ArraySlice<FeedbackSource>
        var pull: FeedbackPull?

        init(_ sources: [FeedbackSource]) { rest = sources[...] }
    }

    /// The number of contacts that one step reads in two or three milliseconds.
    private static let step = 500
    private static let pause: Duration = .milliseconds(2)
    private static let firstPull: Duration = .seconds(60)

    /// Creates the client of Apple's feedback service. In a cluster (`recall` is not `nil`), the service asks by itself
    /// only while this node has the duties of the cluster: see ``dutiesChanged(isHeld:)``.
    ///
    /// - Returns: the service; `nil` if no feedback server is configured.
    package init?(
        settings: PushSettings, loop: EventLoop, log: Log, recall: Recall? = nil, search: @escaping Search
    ) throws(PushSetupError) {
        sources = try FeedbackSource.all(in: settings.apns, proxy: settings.proxy)
        guard let interval = sources.map(\.interval).min() else { return nil }
        self.interval = interval
        address = settings.sourceAddress
        self.loop = loop
        self.log = log
        self.search = search
        self.recall = recall
        do throws(SystemError) {
            resolver = try DNSResolver(on: loop)
            timer = try LoopTimer(on: loop) { [weak self] in self?.timeCame() }
            if recall == nil { timer?.arm(at: loop.now + Self.firstPull) }
        } catch {
            throw PushSetupError("the feedback service cannot start: \(error)")
        }
    }

    /// Uses the changed certificate files and proxies from the next round of feedback requests on.
    package func settingsChanged(_ settings: PushSettings) {
        guard let changed = try? FeedbackSource.all(in: settings.apns, proxy: settings.proxy) else { return }
        sources = changed
        contexts = contexts.filter { changed.contains($0.key) }
    }

    /// Begins or stops to ask at regular intervals, because a feedback server deletes its list when a node reads it, and
    /// only one node of a cluster must read it.
    package func dutiesChanged(isHeld: Bool) {
        if isHeld { timer?.arm(at: loop.now + Self.firstPull) } else { timer?.disarm() }
    }

    private func timeCame() {
        timer?.arm(at: loop.now + interval)
        pull { _ in }
    }

    /// Starts a round of feedback requests immediately, or waits for the round in progress. The closure `finished` gets
    /// the report of the round.
    package func pull(finished: @escaping (FeedbackReport) -> Void) {
        if let round {
            round.waiting.append(finished)
            return
        }
        let round = Round(sources)
        round.waiting = [finished]
        self.round = round
        next(of: round)
    }

    private func next(of round: Round) {
        guard let source = round.rest.popFirst() else { return end(round) }
        let context: TLSContext
        do throws(TLSError) {
            context = try source.makeContext()
            contexts[source] = context
        } catch {
            guard let former = contexts[source] else {
                return pulled(FeedbackPull.Result(failure: error.description), from: source, in: round)
            }
            log.error(
                "the certificate was not reloaded, so the old certificate stays in use",
                [.target: .described(source.endpoint), .reason: .described(error)])
            context = former
        }
        let pull = FeedbackPull(source, context, from: address, loop: loop, resolver: resolver) { [weak self] result in
            self?.pulled(result, from: source, in: round)
        }
        round.pull = pull
        pull.start()
    }

    private func end(_ round: Round) {
        self.round = nil
        let report = round.report
        log.notice(
            "the daemon read dead push tokens from Apple's feedback service",
            [
                .count: .number(report.records),
                .outcome: .text(
                    "dropped \(report.contactsDropped), older \(report.ignoredAsOlder), unknown \(report.unknown)"),
            ])
        for finished in round.waiting { finished(report) }
    }

    private func pulled(_ result: FeedbackPull.Result, from source: FeedbackSource, in round: Round) {
        round.pull = nil
        if let failure = result.failure {
            round.report.failures.append("\(source.endpoint): \(failure)")
            log.warning(
                "the daemon cannot read dead push tokens from Apple's feedback service",
                [.target: .described(source.endpoint), .reason: .text(failure)])
        }
        if result.partialBytes > 0 {
            log.warning(
                "Apple's feedback service closed the connection in the middle of a record",
                [.target: .described(source.endpoint), .bytes: .number(result.partialBytes)])
        }
        round.report.records += result.records.count
        var dead: [ByteString: UInt32] = [:]
        for record in result.records { dead[record.token] = max(record.second, dead[record.token] ?? 0) }
        loop.startTask { [self, dead] _ in
            do throws(SystemError) {
                if !dead.isEmpty { try await search(for: dead, in: round) }
            } catch {
                round.report.failures.append("search not finished: \(error)")
            }
            next(of: round)
        }
    }

    private func search(for dead: [ByteString: UInt32], in round: Round) async throws(SystemError) {
        var unmatched = Set(dead.keys)
        if let recall, await !recall(unmatched) {
            round.report.failures.append("the database did not answer, so contacts of other nodes may stay")
        }
        var cursor = BindingCursor()
        while true {
            let findings = await search(dead, cursor, Self.step)
            round.report.contactsDropped += findings.dropped
            round.report.ignoredAsOlder += findings.newer
            unmatched.subtract(findings.matched)
            guard let next = findings.next else { break }
            cursor = next
            // The pause lets the loop read its sockets, because posted steps would run before.
            try await loop.pause(Self.pause)
        }
        round.report.unknown += unmatched.count
    }
}

// MARK: One server

/// A feedback server, and the certificate that the daemon presents to this server.
struct FeedbackSource: Hashable {
    let endpoint: HostAndPort
    let certFile: String
    let keyFile: String
    let caFile: String?
    let interval: Duration
    let proxy: HTTPProxy?

    /// Returns the feedback servers of all apps, without duplicates. Several apps can have one feedback server, because
    /// an app inherits settings.
    static func all(
        in settings: APNsSettings, proxy general: PushProxy? = nil
    ) throws(PushSetupError) -> [FeedbackSource] {
        guard settings.enabled else { return [] }
        var found: [FeedbackSource] = []
        for app in [settings] + settings.apps.sorted(by: { $0.key < $1.key }).map(\.value) {
            guard let endpoint = app.feedback.endpoint else { continue }
            let own = app.feedback.certFile != nil
            guard let certFile = own ? app.feedback.certFile : app.certFile,
                let keyFile = own ? app.feedback.certKeyFile : app.certKeyFile
            else {
                throw PushSetupError("push.apns.feedback: expected cert-file and cert-key-file, there or in push.apns")
            }
            let source = FeedbackSource(
                endpoint: endpoint, certFile: certFile, keyFile: keyFile, caFile: app.feedback.caFile,
                interval: app.feedback.interval, proxy: HTTPProxy(app.proxy, else: general))
            if !found.contains(source) { found.append(source) }
        }
        return found
    }

    /// Creates the TLS context for one round of requests to feedback servers. Each round reads the certificate and its
    /// key again, because they may have been renewed.
    func makeContext() throws(TLSError) -> TLSContext {
        try TLSContext.client(
            authority: caFile.map { .file($0) }, certificate: .file(certFile), key: .file(keyFile))
    }
}

/// One connection to a feedback server, from the name look-up to the end of the connection.
private final class FeedbackPull {
    struct Result {
        var records: [FeedbackRecord] = []
        /// The number of bytes at the end that belong to an incomplete record.
        var partialBytes = 0
        var failure: String?
    }

    private let source: FeedbackSource
    private let context: TLSContext
    private let address: IPAddress?
    private let loop: EventLoop
    private let resolver: DNSResolver
    private let finished: (Result) -> Void
    private var candidates: ArraySlice<Endpoint> = []
    private var connection: StreamConnection?
    private var reader = FeedbackReader()
    private var result = Result()
    private var isConnected = false
    private var isOver = false

    /// The maximum number of feedback records in one round. A dead token above the limit is detected when the next push
    /// to the token fails.
    private static let limit = 500_000
    private static let patience: Duration = .seconds(30)

    init(
        _ source: FeedbackSource, _ context: TLSContext, from address: IPAddress?, loop: EventLoop,
        resolver: DNSResolver,
        finished: @escaping (Result) -> Void
    ) {
        self.source = source
        self.context = context
        self.address = address
        self.loop = loop
        self.resolver = resolver
        self.finished = finished
    }

    func start() {
        // An HTTP proxy itself looks up the host name of the feedback server.
        let (host, port) = source.proxy.map { ($0.host, $0.port) } ?? (source.endpoint.host, source.endpoint.port)
        let query = ServerQuery(host: host, port: port, transport: .tls)
        resolver.resolve(query) { [weak self] outcome in
            switch outcome {
            case .success(let candidates): self?.found(candidates.map(\.endpoint))
            case .failure(let error): self?.end("no address: \(error)")
            }
        }
    }

    private func found(_ endpoints: [Endpoint]) {
        candidates = endpoints.filter { $0.address.isV4 == (address ?? $0.address).isV4 }[...]
        connect(after: "no address")
    }

    /// Connects to the next address of the server; without a next address, `failure` is the result.
    private func connect(after failure: String) {
        guard let endpoint = candidates.popFirst() else { return end(failure) }
        let server = RequestTarget("https://\(source.endpoint)")
        let tunnel = server.flatMap { source.proxy?.tunnel(to: $0) }
        let session: TLSSession
        do throws(TLSError) {
            session = try context.makeClientSession(host: source.endpoint.host)
        } catch {
            return end("\(error)")
        }
        do throws(SystemError) {
            connection = try StreamConnection.connect(
                to: endpoint, from: address, on: loop, through: tunnel, tls: session,
                handlers: StreamConnection.Handlers(
                    connected: { [weak self] connection in
                        // No other address is tried, because a feedback server deletes its list when a client connects.
                        self?.candidates = []
                        self?.isConnected = true
                        connection.setIdleTimeout(Self.patience)
                    },
                    received: { [weak self] _, bytes in
                        self?.received(bytes)
                        return bytes.count
                    }, closed: { [weak self] _, reason in self?.closed(reason) }))
        } catch {
            connect(after: "\(error)")
        }
    }

    private func received(_ bytes: Span<UInt8>) {
        result.records += reader.read(bytes)
        if let problem = reader.problem { return end("\(problem)") }
        if result.records.count > Self.limit { end("more than \(Self.limit) records") }
    }

    private func closed(_ reason: StreamCloseReason) {
        if reason == .peerClosed, isConnected { return end(nil) }
        if case .tunnel(let failure) = reason, let proxy = source.proxy {
            return connect(after: proxy.error(.tunnel(failure)).sentence)
        }
        connect(after: "\(reason)")
    }

    private func end(_ failure: String?) {
        guard !isOver else { return }
        isOver = true
        connection?.close()
        connection = nil
        result.failure = failure
        result.partialBytes = reader.partialBytes
        finished(result)
    }
}
