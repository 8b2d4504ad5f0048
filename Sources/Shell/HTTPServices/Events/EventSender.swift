import Crypto
import HTTPClient
import HTTPSemantics
import Persistence
import PushDelivery
import Reactor
import Telemetry
import Timekeeping

/// Sends the events of the log to the receiver: one request at a time, oldest events first. If the receiver does not
/// accept a request, the same events are sent again until the receiver accepts them.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
final class EventSender: @unchecked Sendable {
    private enum State {
        /// The timer fires shortly after the next event.
        case idle
        case sending
        /// The timer fires when the batch is sent again.
        case pausing
        case closed
    }

    struct Target {
        let url: String
        /// The receiver in log lines.
        let place: String
        let secrets: EventSecrets
    }

    private let loop: EventLoop
    private let events: EventLog
    private let log: Log
    private var connector: WebhookConnector
    private var target: Target
    private var state = State.idle
    private var pacing = EventPacing()
    private var timer: LoopTimer?
    private var batch: EventLog.Batch?
    private var awayLog = LogRateLimit(burst: 1, per: .seconds(300))
    /// The time since which the receiver has accepted no events, and the reason.
    private(set) var trouble: (since: Instant, reason: String)?
    private(set) var figures = CounterSet()
    private let random: () -> Double

    /// The maximum numbers of events and of bytes in a request.
    static let batchLimit = 256
    static let batchBytes = 256 << 10
    /// The time for which the first event of a batch waits for more events.
    private static let linger: Duration = .milliseconds(50)

    init(
        _ events: EventLog, to target: Target, over connector: WebhookConnector, on loop: EventLoop, log: Log,
        random: @escaping () -> Double = { .random(in: 0...1) }
    ) throws(SystemError) {
        (self.events, self.target, self.connector) = (events, target, connector)
        (self.loop, self.log, self.random) = (loop, log, random)
        timer = try LoopTimer(on: loop) { [weak self] in self?.timePassed() }
    }

    /// Notes that events may wait in the log.
    func wake() {
        guard case .idle = state, timer?.deadline == nil else { return }
        timer?.arm(at: loop.now + Self.linger)
    }

    /// Uses another receiver or other secrets from the next request on. A batch that waits for its next try is sent
    /// immediately.
    func change(to target: Target, over connector: WebhookConnector) {
        let former = self.connector
        (self.target, self.connector) = (target, connector)
        // The function that gets the answer of the last request may be running now.
        if case .sending = state { retired.append(former) } else { loop.post { former.close() } }
        pacing = EventPacing()
        if case .pausing = state { post() }
    }

    /// Connectors that still wait for an answer.
    private var retired: [WebhookConnector] = []

    func readAuthority() { connector.readAuthority() }

    func close() {
        state = .closed
        timer = nil
        for connector in retired + [connector] { loop.post { connector.close() } }
    }

    // MARK: Requests

    private func timePassed() {
        switch state {
        case .idle, .pausing: post()
        case .sending, .closed: break
        }
    }

    private func post() {
        timer?.disarm()
        if batch == nil { batch = events.nextBatch(count: Self.batchLimit, bytes: Self.batchBytes) }
        guard let batch else { return state = .idle }
        state = .sending
        let body = Self.body(batch.events)
        let id = "\(batch.ids.lowerBound)-\(batch.ids.upperBound)"
        let date = loop.moment.date
        let signatures: String
        do throws(CryptoError) {
            signatures = try target.secrets.signatures(of: body, id: id, at: date)
        } catch {
            return failed("the request cannot be signed: \(error)", wish: nil)
        }
        let headers = [
            HTTPField("Content-Type", "application/cloudevents-batch+json"), HTTPField("webhook-id", id),
            HTTPField("webhook-timestamp", "\(date.seconds)"), HTTPField("webhook-signature", signatures),
        ]
        connector.post(body, headers, to: target.url) { [weak self] outcome in self?.answered(outcome) }
    }

    private static func body(_ events: [[UInt8]]) -> [UInt8] {
        var body: [UInt8] = [UInt8(ascii: "[")]
        body.reserveCapacity(events.reduce(2) { $0 + $1.count + 1 })
        for event in events {
            if body.count > 1 { body.append(UInt8(ascii: ",")) }
            body += event
        }
        body.append(UInt8(ascii: "]"))
        return body
    }

    private func answered(_ outcome: WebhookConnector.Outcome) {
        guard case .sending = state else { return }
        for connector in retired { loop.post { connector.close() } }
        retired = []
        switch outcome {
        case .answered(let response):
            switch EventAnswer(status: response.status) {
            case .taken: taken()
            case .again(let reason):
                let wish = response.header("retry-after").flatMap {
                    RetryAfter.duration($0, now: loop.moment.date)
                }
                failed(reason, wish: wish)
            }
        case .failed(let reason): failed(reason, wish: nil)
        }
    }

    private func taken() {
        if let batch { events.delivered(batch) }
        batch = nil
        pacing.succeeded()
        if let (since, _) = trouble {
            trouble = nil
            log.notice(
                "the receiver of events accepts them again",
                [
                    .target: .text(target.place), .duration: .duration(loop.now - since),
                    .count: .number(events.waiting),
                ])
        }
        state = .idle
        events.tellLosses(now: loop.moment)
        events.flush(now: loop.now)
        // The next request starts in a later iteration of the loop, so that the loop can serve calls first.
        if events.waiting > 0 { timer?.arm(at: loop.now) }
    }

    private func failed(_ reason: String, wish: Duration?) {
        figures.count(.eventRequestFailed)
        trouble = (trouble?.since ?? loop.now, reason)
        if let suppressed = awayLog.admit(now: loop.now) {
            log.warning(
                "the receiver of events does not accept them, so events wait on the disk: repair the receiver, or correct the setting 'events.url'",
                [
                    .target: .text(target.place), .reason: .text(reason), .count: .number(events.waiting),
                    .suppressed: .number(suppressed),
                ])
        }
        state = .pausing
        timer?.arm(at: loop.now + pacing.failed(wish: wish, chance: random()))
    }
}
