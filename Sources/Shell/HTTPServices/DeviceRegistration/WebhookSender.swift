import Addressing
import Collections
import HTTPClient
import HTTPSemantics
import JSON
import Persistence
import Reactor
import SIPGrammar
import Telemetry

/// Posts the outcomes of device requests to callback URLs. Each webhook is sent at most once, without retries.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
final class WebhookSender: @unchecked Sendable {
    typealias Resolve = WebhookConnector.Resolve

    struct Webhook {
        let callback: DeviceCallback
        let outcome: DeviceOutcome
    }

    private let loop: EventLoop
    private let connector: WebhookConnector
    private let log: Log
    private var logLimit = LogRateLimit()
    private(set) var waiting = Queue<Webhook>()
    private(set) var inFlight = 0

    private static let concurrency = 32
    private static let waitingLimit = 10_000

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
        self.log = log
        connector = WebhookConnector(
            WebhookConnector.Rules(
                destinations: CallbackGuard(
                    allowsPlain: settings.allowsPlainWebhooks, allowed: settings.privateReceivers),
                authorityFile: settings.webhookAuthorityFile,
                authoritySetting: "api.device-registration.webhook-ca-file", source: settings.webhookSource,
                timeout: timeout),
            loop: loop, log: log, ownEndpoints: ownEndpoints, resolve: resolve)
    }

    /// Reads the file with certificate authorities for webhooks again.
    func readAuthority() { connector.readAuthority() }

    func post(_ outcome: DeviceOutcome, to callback: DeviceCallback) {
        guard waiting.count < Self.waitingLimit else { return note("the queue is full") }
        waiting.append(Webhook(callback: callback, outcome: outcome))
        sendWaiting()
    }

    func close() {
        waiting = Queue()
        connector.close()
    }

    private func sendWaiting() {
        while inFlight < Self.concurrency, let webhook = waiting.popFirst() {
            inFlight += 1
            begin(webhook)
        }
    }

    private func begin(_ webhook: Webhook) {
        var headers = WebhookFields(webhook.callback.fields)?.headers ?? []
        if !headers.contains(where: { $0.name.lowercased() == "content-type" }) {
            headers.append(HTTPField("Content-Type", "application/json"))
        }
        connector.post(Self.body(webhook), headers, to: webhook.callback.url) { [weak self] outcome in
            switch outcome {
            case .answered(let response) where (200...299).contains(response.status): self?.ended(nil)
            case .answered(let response): self?.ended("status \(response.status)")
            case .failed(let problem): self?.ended(problem)
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
        // The next webhook starts in a later turn of the loop. Direct calls would recurse deeply if a long queue had
        // many refused URLs.
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
