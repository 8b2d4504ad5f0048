import Routing
import Addressing
import Bytes
import Crypto
import Foundation
import LoopTesting
import OperatorPage
import Persistence
import ProxyCore
import PushDelivery
import Reactor
import Registration
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import HTTPServices
@testable import ProxyDaemon
@testable import ProxyRuntime

/// A complete daemon that runs on a thread of its own. In this daemon, user 100 has the password `se cret+1`, and one
/// API key may report tokens.
struct RunningDaemon: Sendable {
    let loop: EventLoop
    let door: ShardDoor
    private let streams: StreamFlows
    let api: Endpoint
    /// The address of the admin API, if the settings enable it.
    let admin: Endpoint?
    let sip: Endpoint
    let key: APIKeySecret
    let log: MemoryLogSink
    let undescribedRoutes: [String]
    let apps: MobileApps
    /// All HTTP routes of the API.
    let routes: [Route]
    /// The HTTP routes of the API and the admin API that change something.
    let changes: [Route]
    /// All HTTP routes of the API and the admin API, with their declarations.
    let declared: [(route: ServiceRouter.Route, isOfAdmin: Bool)]
    /// The path of the control socket.
    let control: String
    private let live: LiveView?
    private let ended: Mailbox<Bool>

    struct Route: Hashable, Sendable {
        let method: String
        let pattern: String
    }

    static let password = "se cret+1"
    private static let functions = DigestFunctions(
        hash: { algorithm, bytes in
            (algorithm == .md5 ? HashAlgorithm.md5 : algorithm == .sha256 ? .sha256 : .sha512_256).digest(of: bytes)
        }, code: { HashAlgorithm.sha256.digest(of: $0) })

    static func start(
        _ folder: StoreFolder, _ change: (inout DaemonSettings) -> Void = { _ in }
    ) async throws -> RunningDaemon {
        let key = try APIKeySecret.make()
        let reader = try #require(APIKeySecret(readerKey))
        let sender = try #require(APIKeySecret(senderKey))
        let admin = try #require(APIKeySecret(adminKey))
        let date = UnixTime(seconds: 0)
        let user = DigestUser(
            name: ByteString("100"), realm: ByteString("example.net"), password: ByteString(password),
            algorithms: [.sha256, .md5], functions: functions)
        let keys = [
            APIKey(name: "server", hash: key.hash, scopes: [.tokensReport], createdAt: date),
            APIKey(name: "reader", hash: reader.hash, scopes: [.tokensRead], createdAt: date),
            APIKey(name: "sender", hash: sender.hash, scopes: [.pushes, .lifecycle], createdAt: date),
            APIKey(name: "boss", hash: admin.hash, scopes: [.admin], createdAt: date),
        ].compactMap(\.self)
        try folder.keep([.addUser(user)] + keys.map { .addKey($0.stored) })

        var settings = DaemonSettings()
        settings.domains = ["example.net", "example.org"]
        settings.listen = [ListenAddress(transport: .udp, endpoint: Endpoint(.loopbackV4, 0))]
        settings.store = folder.path
        if folder.database != nil { settings.postgreSQL.connection = folder.connection }
        settings.control = folder.folder + "/control.sock"
        settings.auth = .off
        settings.api.listen = [Endpoint(.loopbackV4, 0)]
        settings.push.acrobits.enabled = true
        // The daemon must not try its credentials, because tests send no requests to real providers.
        settings.push.triesCredentials = false
        change(&settings)
        let sink = MemoryLogSink()
        let log = Log(level: .debug, sink: sink) { UnixTime(milliseconds: 0) }
        let ended = Mailbox<Bool>()
        let daemon = try await Daemon(settings: settings, path: "none", log: log)
        guard let api = daemon.api.endpoints.first, let sip = daemon.listeners.first?.bound else {
            throw StartError("no port")
        }
        let running = RunningDaemon(
            loop: daemon.loop, door: daemon.door, streams: daemon.streams, api: api,
            admin: daemon.admin.endpoints.first, sip: sip, key: key, log: sink,
            undescribedRoutes: (daemon.api.router.routes + daemon.admin.router.routes).filter { $0.description == nil }
                .map { "\($0.method) \($0.pattern)" },
            apps: daemon.services.apps,
            routes: daemon.api.router.routes.map { Route(method: $0.method, pattern: $0.pattern) },
            changes: (daemon.api.router.routes + daemon.admin.router.routes).filter(\.isChange)
                .map { Route(method: $0.method, pattern: $0.pattern) },
            declared: daemon.api.router.routes.map { ($0, false) } + daemon.admin.router.routes.map { ($0, true) },
            control: settings.control, live: daemon.live,
            ended: ended)
        Task {
            defer { ended.put(true) }
            try await daemon.run()
        }
        return running
    }

    /// An API key that may read push tokens but not report push tokens.
    static let readerKey = "spd_" + String(repeating: "A", count: 43)
    /// An API key with all scopes.
    static let adminKey = "spd_" + String(repeating: "B", count: 43)

    /// An API key that may send pushes, and may report the marks of pushes.
    static let senderKey = "spd_" + String(repeating: "C", count: 43)

    func stop() async throws {
        loop.stop()
        _ = try await ended.next()
    }

    static func with(
        _ change: (inout DaemonSettings) -> Void = { _ in }, _ body: (RunningDaemon) async throws -> Void
    ) async throws {
        let folder = try StoreFolder()
        let daemon = try await start(folder, change)
        do {
            try await body(daemon)
        } catch {
            try await daemon.stop()
            throw error
        }
        try await daemon.stop()
    }

    /// The number of viewers of the live view.
    var viewers: Int {
        get async throws { await Bench(loop).run { _ in live?.viewerCount ?? 0 } }
    }

    // MARK: Requests

    /// Lists the stored devices of a user, each as `provider param prid`.
    func devices(_ user: String, domain: String = "example.net") async -> [String] {
        await door.ask(.everything) { engine, now in
            engine.targets(of: AddressOfRecord(user: ByteString(user), host: ByteString(domain)), now: now)
                .compactMap { $0.pushToken.map { "\($0.provider.rawValue) \($0.param) \($0.prid)" } }
        }
    }

    /// The number of all devices in the daemon's store.
    func bindingCount() async -> Int { await door.ask(.everything) { engine, _ in engine.bindings.count } }

    var streamFigures: CounterSet {
        get async { await Bench(loop).run { _ in streams.figures } }
    }

    /// Whether an app has the given token.
    func isKnown(_ token: AppToken) async -> Bool {
        let apps = apps
        return await Bench(loop).run { _ in
            guard let id = apps.reports.first?.id, let id = RequestID(id) else { return false }
            return apps.app(id, of: "org-1", showing: token.text) != nil
        }
    }

    /// Sends the text of a request unchanged to the API.
    ///
    /// - Returns: the bytes of the HTTP answer.
    func answer(_ request: String, from other: Endpoint? = nil) async throws -> String {
        try await TCPClient.answer(to: request, from: other ?? api)
    }

    func answer(_ request: [UInt8]) async throws -> String { try await TCPClient.answer(to: request, from: api) }

    /// Sends a request to the admin API.
    func order(
        _ method: String, _ target: String, _ body: String = "", key: String? = adminKey
    ) async throws -> (status: Int, body: String) {
        let field = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        let endpoint = try #require(admin)
        let answer = try await answer(
            "\(method) \(target) HTTP/1.1\r\nHost: a\r\n\(field)Content-Length: \(body.utf8.count)\r\n"
                + "Connection: close\r\n\r\n\(body)", from: endpoint)
        let head = try #require(answer.firstRange(of: "\r\n\r\n"))
        return (status(answer), String(answer[head.upperBound...]))
    }

    /// Sends a request to the API, and returns the status of the answer.
    func get(_ target: String, key: String? = nil, method: String = "GET") async throws -> Int {
        let field = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        return status(try await answer("\(method) \(target) HTTP/1.1\r\nHost: a\r\n\(field)Connection: close\r\n\r\n"))
    }

    func post(
        _ target: String, _ body: String, type: String? = nil, key: String? = nil
    ) async throws -> Int {
        let fields =
            (key.map { "Authorization: Bearer \($0)\r\n" } ?? "") + (type.map { "Content-Type: \($0)\r\n" } ?? "")
        return status(
            try await answer(
                "POST \(target) HTTP/1.1\r\nHost: a\r\n\(fields)Content-Length: \(body.utf8.count)\r\n"
                    + "Connection: close\r\n\r\n\(body)"))
    }

    // MARK: Expectations

    /// Sends a request to the API, and expects the given status.
    func expect(
        _ status: Int, get target: String, key: String? = nil, method: String = "GET",
        at place: SourceLocation = #_sourceLocation
    ) async throws {
        let answered = try await get(target, key: key, method: method)
        #expect(answered == status, "\(method) \(target.prefix(200))", sourceLocation: place)
    }

    /// Sends a request to the API, and expects the given status.
    func expect(
        _ status: Int, post target: String, _ body: String, type: String? = nil, key: String? = nil,
        at place: SourceLocation = #_sourceLocation
    ) async throws {
        let answered = try await post(target, body, type: type, key: key)
        #expect(
            answered == status, "POST \(target.prefix(200)), \(type ?? "no type"): \(body.prefix(200))",
            sourceLocation: place)
    }

    /// Expects that the store has exactly the given devices of the user.
    func expect(
        _ devices: [String], of user: String, domain: String = "example.net",
        at place: SourceLocation = #_sourceLocation
    ) async {
        let stored = await self.devices(user, domain: domain)
        #expect(stored == devices, "\(user)@\(domain)", sourceLocation: place)
    }

    private func status(_ answer: String) -> Int { Int(answer.dropFirst(9).prefix(3)) ?? 0 }
}
