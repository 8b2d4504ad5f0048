import Crypto
import HTTPClient
package import PushDelivery
package import Reactor
import SIPGrammar
package import Telemetry
import Timekeeping

/// Sends pushes: renders, adds the credential, sends on the loop, reads the answer, tries again within the push's life.
///
/// Each provider has its own lane with a limit of requests in flight, so that a slow one never delays another (F6).
/// Lives on its shard's loop.
///
/// - `@unchecked Sendable` because it is used on the loop's thread alone; what it posts comes back there.
package final class PushService: @unchecked Sendable {
    /// The provider's last word; not called for a push that was cancelled.
    package var finished: (PushID, PushOutcome) -> Void = { _, _ in }

    private let loop: EventLoop
    private let http: HTTPSession
    private let settings: PushSettings
    private let credentials: ProviderCredentials
    private let log: Log
    private var deliveries: [PushID: Delivery] = [:]
    private var lanes: [PushProvider: Lane] = [:]

    /// One push on its way.
    ///
    /// - `@unchecked Sendable` for the same reason.
    private final class Delivery: @unchecked Sendable {
        let request: PushRequest
        let apnsID: APNsID
        /// Tries so far.
        var tries = 0
        var renewedCredential = false
        var exchange: HTTPExchange?
        var timer: LoopTimer?

        init(_ request: PushRequest) {
            self.request = request
            apnsID = APNsID(high: .random(in: .min ... .max), low: .random(in: .min ... .max))
        }
    }

    private struct Lane {
        var inFlight = 0
        var queue: [PushID] = []
        /// This provider has taken a push of ours before.
        var isProven = false
    }

    /// Waits before the second, third and fourth try.
    private static let pauses: [Duration] = [.milliseconds(300), .seconds(1), .seconds(3)]

    package init(loop: EventLoop, settings: PushSettings, log: Log) throws(PushSetupError) {
        self.loop = loop
        self.log = log
        http = HTTPSession(on: loop)
        credentials = try ProviderCredentials(settings: settings, http: http, log: log)
        var settings = settings
        if settings.fcm.projectID == nil { settings.fcm.projectID = credentials.projectID }
        self.settings = settings
    }

    package func send(_ request: PushRequest) {
        let provider = request.token.provider
        let delivery = Delivery(request)
        deliveries[request.id] = delivery
        let limits = settings.lane(of: provider)
        guard lanes[provider, default: Lane()].inFlight < limits.requests else {
            guard lanes[provider, default: Lane()].queue.count < limits.queue else {
                // Told later: the engine is in the middle of its own work now.
                loop.post { [weak self] in self?.finish(request.id, .retry(after: nil)) }
                return
            }
            lanes[provider, default: Lane()].queue.append(request.id)
            return
        }
        start(delivery)
    }

    package func cancel(_ id: PushID) {
        guard let delivery = deliveries.removeValue(forKey: id) else { return }
        guard let exchange = delivery.exchange else { return }
        exchange.cancel()
        leaveLane(delivery.request.token.provider)
    }

    package func close() { http.close() }

    // MARK: One try

    private func start(_ delivery: Delivery) {
        let provider = delivery.request.token.provider
        delivery.tries += 1
        credentials.withCredential(for: provider) { [weak self] credential in
            guard let self, deliveries[delivery.request.id] === delivery else { return }
            switch credential {
            case .success(let credential): transmit(delivery, credential)
            case .failure(let outcome): settle(delivery, outcome.outcome)
            }
        }
    }

    private func transmit(_ delivery: Delivery, _ credential: ProviderCredential) {
        let now = loop.moment.date
        let rendered = settings.render(delivery.request, id: delivery.apnsID, now: now)
        guard case .request(let message) = rendered else {
            if case .impossible(let outcome) = rendered { settleLater(delivery, outcome) }
            return
        }
        let provider = delivery.request.token.provider
        var request = HTTPClientRequest(
            method: "POST", url: settings.url(of: provider) + message.path,
            headers: message.headers.map { HTTPHeader($0.name, $0.value) }, body: message.body)
        if let header = credential.header { request.headers.append(header) }
        request.authorityFile = settings.authorityFile(of: provider)
        request.certificateFile = credential.certificateFile
        request.keyFile = credential.keyFile
        request.timeout = settings.requestTimeout
        request.group = provider.rawValue
        lanes[provider, default: Lane()].inFlight += 1
        delivery.exchange = http.send(request) { [weak self] result in
            guard let self, deliveries[delivery.request.id] === delivery else { return }
            delivery.exchange = nil
            leaveLane(provider)
            settle(delivery, outcome(of: result, for: delivery))
        }
    }

    private func outcome(
        of result: Result<HTTPClientResponse, HTTPClientError>, for delivery: Delivery
    ) -> PushOutcome {
        switch result {
        case .success(let response):
            let provider = delivery.request.token.provider
            let answer = ProviderAnswer(
                status: response.status, id: response.header("apns-id"), retryAfter: response.header("retry-after"),
                body: response.body)
            let outcome = settings.outcome(
                of: answer, from: provider, isProven: lanes[provider]?.isProven ?? false, now: loop.moment.date)
            if outcome.isAccepted { lanes[provider, default: Lane()].isProven = true }
            return outcome
        case .failure(let error):
            log.warning(
                "push provider not reached",
                [.provider: .text(delivery.request.token.provider.rawValue), .error: .described(error)])
            return error.isRetriable ? .retry(after: nil) : .credentialsRefused(error.description)
        }
    }

    // MARK: After a try

    private func settleLater(_ delivery: Delivery, _ outcome: PushOutcome) {
        loop.post { [weak self] in
            guard let self, deliveries[delivery.request.id] === delivery else { return }
            settle(delivery, outcome)
        }
    }

    private func settle(_ delivery: Delivery, _ outcome: PushOutcome) {
        switch outcome {
        case .retry(let wish): retry(delivery, after: wish, outcome)
        case .renewCredential where !delivery.renewedCredential:
            delivery.renewedCredential = true
            credentials.renew(delivery.request.token.provider)
            start(delivery)
        case .renewCredential:
            finish(delivery.request.id, .credentialsRefused("the renewed credential was refused too"))
        case .accepted, .acceptedWithNewToken, .tokenDead, .credentialsRefused, .payloadRefused, .noSuitableToken:
            finish(delivery.request.id, outcome)
        }
    }

    /// Another try after a pause with jitter, never past the push's deadline.
    private func retry(_ delivery: Delivery, after wish: Duration?, _ outcome: PushOutcome) {
        let now = loop.moment
        guard delivery.tries <= Self.pauses.count else { return finish(delivery.request.id, outcome) }
        let pause = Self.pauses[delivery.tries - 1] * Double.random(in: 0.8...1.2)
        let wait = max(wish ?? .zero, pause)
        guard now.date + wait < delivery.request.deadline else { return finish(delivery.request.id, outcome) }
        do {
            delivery.timer = try loop.schedule(at: now.instant + wait) { [weak self] in
                guard let self, deliveries[delivery.request.id] === delivery else { return }
                delivery.timer = nil
                start(delivery)
            }
        } catch {
            finish(delivery.request.id, outcome)
        }
    }

    private func finish(_ id: PushID, _ outcome: PushOutcome) {
        guard let delivery = deliveries.removeValue(forKey: id) else { return }
        note(outcome, of: delivery)
        finished(id, outcome)
    }

    private func note(_ outcome: PushOutcome, of delivery: Delivery) {
        let token = delivery.request.token
        switch outcome {
        case .accepted, .acceptedWithNewToken:
            log.info("push accepted", [.provider: .text(token.provider.rawValue), .token: .redacted(token.prid)])
        case .credentialsRefused(let reason):
            log.error("push provider refuses us", [.provider: .text(token.provider.rawValue), .reason: .text(reason)])
        case .payloadRefused(let reason):
            log.error(
                "push provider refuses the message", [.provider: .text(token.provider.rawValue), .reason: .text(reason)])
        case .tokenDead, .retry, .renewCredential, .noSuitableToken:
            log.notice(
                "push failed",
                [
                    .provider: .text(token.provider.rawValue), .token: .redacted(token.prid),
                    .outcome: .text("\(outcome)"),
                ])
        }
    }

    private func leaveLane(_ provider: PushProvider) {
        lanes[provider, default: Lane()].inFlight -= 1
        while let next = lanes[provider]?.queue.first, lanes[provider, default: Lane()].inFlight < settings.lane(of: provider).requests {
            lanes[provider]?.queue.removeFirst()
            if let delivery = deliveries[next] {
                start(delivery)
                return
            }
        }
    }
}
