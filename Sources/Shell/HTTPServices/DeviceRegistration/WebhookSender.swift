import Addressing
import Collections
import Crypto
import HTTP1Connections
import HTTPClient
import HTTPSemantics
import JSON
import Persistence
import Reactor
import Resolver
import SIPGrammar
import Settings
import Telemetry

/// Posts the outcomes of device requests to callback URLs. Each webhook is sent at most once, without retries.
///
/// The sender resolves the host name of a webhook itself, connects to the address that it has checked, and follows no
/// redirects.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
final class WebhookSender: @unchecked Sendable {
    /// A function that resolves a host name to all of its addresses, and calls back once, on the event loop.
    typealias Resolve = (String, @escaping @Sendable ([IPAddress]) -> Void) -> Void

    struct Webhook {
        let callback: DeviceCallback
        let outcome: DeviceOutcome
    }

    private let loop: EventLoop
    private let http: HTTPSession
    private let rules: CallbackGuard
    private let authorityFile: String?
    /// The last usable contents of `authorityFile`.
    private var authority: PEM?
    private let ownEndpoints: () -> [Endpoint]
    private let resolve: Resolve
    private let log: Log
    private var logLimit = LogRateLimit()
    private(set) var waiting = Queue<Webhook>()
    private(set) var inFlight = 0
    private let timeout: Duration

    private static let concurrency = 32
    private static let waitingLimit = 10_000
    private static let authorityLimit = 4 << 20
    private static let answerLimit = 64 << 10

    /// - Parameters:
    ///   - settings: the destinations to which webhooks are allowed.
    ///   - timeout: the maximum time from the connection to the end of the answer.
    ///   - loop: the shard's loop.
    ///   - log: receives messages about lost webhooks.
    ///   - ownEndpoints: the daemon's own listeners, to which webhooks are never sent.
    ///   - resolve: resolves the host names of receivers.
    init(
        settings: DeviceRegistrationSettings, timeout: Duration = .seconds(10), loop: EventLoop, log: Log,
        ownEndpoints: @escaping () -> [Endpoint], resolve: @escaping Resolve
    ) {
        self.loop = loop
        self.timeout = timeout
        self.log = log
        self.ownEndpoints = ownEndpoints
        self.resolve = resolve
        rules = CallbackGuard(allowsPlain: settings.allowsPlainWebhooks, allowed: settings.privateReceivers)
        authorityFile = settings.webhookAuthorityFile
        authority = authorityFile.map { (try? Self.content(of: $0)) ?? .file($0) }
        var limits = HTTPSession.Limits()
        limits.source = settings.webhookSource
        http = HTTPSession(on: loop, limits: limits, over: [HTTP1Transport.self])
    }

    /// Reads the file with certificate authorities for webhooks again. If the file with certificate authorities cannot
    /// be used, the earlier authorities stay in use.
    func readAuthority() {
        guard let file = authorityFile else { return }
        do {
            authority = try Self.content(of: file)
        } catch {
            log.error(
                "the certificate was not reloaded, so the old certificate stays in use",
                [.setting: "api.device-registration.webhook-ca-file", .reason: .text("\(error)")])
        }
    }

    private static func content(of file: String) throws -> PEM {
        _ = try TLSContext.client(authority: .file(file))
        let bytes = PEM.bytes(try SettingsFile.bytes(at: file, limit: authorityLimit))
        _ = try TLSContext.client(authority: bytes)
        return bytes
    }

    func post(_ outcome: DeviceOutcome, to callback: DeviceCallback) {
        guard waiting.count < Self.waitingLimit else { return note("the queue is full") }
        waiting.append(Webhook(callback: callback, outcome: outcome))
        sendWaiting()
    }

    func close() {
        waiting = Queue()
        http.close()
    }

    private func sendWaiting() {
        while inFlight < Self.concurrency, let webhook = waiting.popFirst() {
            inFlight += 1
            begin(webhook)
        }
    }

    private func begin(_ webhook: Webhook) {
        guard let url = CallbackURL(webhook.callback.url), url.isSecure || rules.allowsPlain else {
            return ended("the callback URL has a form that is not accepted")
        }
        if let address = IPAddress(url.host) { return post(webhook, to: url, at: [address]) }
        resolve(url.host) { [weak self] addresses in self?.post(webhook, to: url, at: addresses) }
    }

    private func post(_ webhook: Webhook, to url: CallbackURL, at addresses: [IPAddress]) {
        guard let address = rules.address(among: addresses, port: url.port, own: ownEndpoints()) else {
            return ended(
                addresses.isEmpty ? "the callback's host has no address" : "the callback's address is not allowed")
        }
        var request = HTTPClientRequest(method: "POST", url: url.text, body: Self.body(webhook))
        request.headers = WebhookFields(webhook.callback.fields)?.headers ?? []
        if !request.headers.contains(where: { $0.name.lowercased() == "content-type" }) {
            request.headers.append(HTTPField("Content-Type", "application/json"))
        }
        request.route.version = .http1
        request.timeout = timeout
        request.responseLimit = Self.answerLimit
        request.route.address = address
        request.route.authority = authority
        http.send(request) { [weak self] result in
            switch result {
            case .success(let response) where (200...299).contains(response.status): self?.ended(nil)
            case .success(let response): self?.ended("status \(response.status)")
            case .failure(let error): self?.ended("\(error.code)")
            }
        }
    }

    private static func body(_ webhook: Webhook) -> [UInt8] {
        var failure: DeviceFailure?
        if case .failed(let reason) = webhook.outcome { failure = reason }
        let members: [(String, JSONValue)] = [
            ("Status", failure == nil ? "Success" : "Failed"), ("Signature", .string(webhook.callback.signature)),
        ]
        return JSONValue.members(members + (failure.map { [("FailureReason", .string($0.rawValue))] } ?? [])).bytes
    }

    /// Notes the end of a webhook, and begins the next webhook. The text `problem` is the reason why the webhook was
    /// lost; `nil` if the webhook was delivered.
    private func ended(_ problem: String?) {
        inFlight -= 1
        if let problem { note(problem) }
        // The next webhook starts in a later turn of the loop, because direct calls would recurse once for each refused
        // URL in a long queue.
        if !waiting.isEmpty { loop.post { self.sendWaiting() } }
    }

    /// Logs that a webhook was not delivered, without its URL, because the URL may contain secrets.
    private func note(_ problem: String) {
        guard let suppressed = logLimit.admit(now: loop.now) else { return }
        log.info(
            "a webhook could not be delivered, so the daemon dropped it",
            [.reason: .text(problem), .suppressed: .number(suppressed)])
    }
}

extension DNSResolver {
    /// Looks up all addresses of the webhook's host.
    func addresses(of host: String, _ done: @escaping @Sendable ([IPAddress]) -> Void) {
        // A DNS query with a port asks only for addresses, and not for NAPTR and SRV records.
        resolve(ServerQuery(host: host, port: 443, transport: .tls)) { outcome in
            done(((try? outcome.get()) ?? []).map(\.endpoint.address))
        }
    }
}
