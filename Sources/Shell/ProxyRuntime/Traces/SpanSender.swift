import Crypto
import HTTP1Connections
import HTTPClient
import HTTPSemantics
import OTLP
import Reactor
import Telemetry
import Timekeeping

/// Sends spans to the OTLP collector in batches, one request at a time.
///
/// A batch is sent when it is full, or five seconds after its first span. If the collector asks for a pause or does not
/// answer, a batch is sent again after a pause; if the collector refuses the batch, the batch is dropped.
final class SpanSender {
    struct Target {
        let url: String
        /// The address of the OTLP collector, as log lines show it.
        let place: String
        let headers: [HTTPField]
        let authority: PEM?
        let request: ExportRequest
    }

    private enum State {
        /// The timer fires when the next batch is due.
        case collecting
        case sending
        /// The timer fires when the batch is sent again.
        case pausing
        case over
    }

    private var target: Target
    private var queue: SpanQueue
    private var state = State.collecting
    private let loop: EventLoop
    private let http: HTTPSession
    private let log: Log
    private var timer: LoopTimer?
    private let times: Times
    private var pause: Duration
    /// Whether the log has the line that the collector does not accept spans.
    private var isAway = false
    private var lossLog = LogRateLimit(burst: 1, per: .seconds(60))
    private var refusalLog = LogRateLimit(burst: 1, per: .seconds(60))
    private var awayLog = LogRateLimit(burst: 1, per: .seconds(60))
    private var whenEmpty: (() -> Void)?
    private(set) var figures = CounterSet()

    struct Times {
        /// The time for which the first span of a batch waits for more spans.
        var batch: Duration = .seconds(5)
        /// The pause before the second try to send a batch. The pause doubles with each try to send a batch, up to
        /// ``longestPause``.
        var shortestPause: Duration = .seconds(1)
        var longestPause: Duration = .seconds(60)
        /// The time in which the collector must answer.
        var patience: Duration = .seconds(10)
    }

    /// The maximum pause that a collector can ask for in seconds.
    static let longestWish = 300
    /// The maximum size of an answer in bytes.
    static let answerLimit = 64 << 10

    init(
        to target: Target, limit: Int, times: Times = Times(), on loop: EventLoop, log: Log
    ) throws(SystemError) {
        self.target = target
        self.times = times
        pause = times.shortestPause
        self.loop = loop
        self.log = log
        queue = SpanQueue(limit: limit)
        http = HTTPSession(on: loop, over: [HTTP1Transport.self])
        timer = try LoopTimer(on: loop) { [weak self] in self?.timePassed() }
    }

    /// The number of spans that wait for the collector or for its answer.
    var waiting: Int { queue.count }

    func send(_ span: TraceSpan) {
        if case .over = state { return figures.count(.spanDropped) }
        let dropped = queue.append(span.json)
        if dropped > 0 { overflowed(dropped) }
        guard case .collecting = state else { return }
        if queue.count >= SpanQueue.batchLimit {
            post()
        } else if timer?.deadline == nil {
            timer?.arm(at: loop.now + times.batch)
        }
    }

    /// Uses other settings from the next request on. A batch that waits for its next try is sent immediately.
    func change(to target: Target, limit: Int) {
        self.target = target
        queue.limit = limit
        pause = times.shortestPause
        if case .pausing = state { post() }
    }

    /// Sends all waiting spans, gives up at the first failure or after `time`, and closes the sender.
    func finish(within time: Duration, _ done: @escaping () -> Void) {
        whenEmpty = done
        if queue.count == 0 { return close() }
        timer?.arm(at: loop.now + time)
        if case .sending = state { return }
        post()
    }

    // MARK: Requests

    private func timePassed() { if whenEmpty == nil { post() } else { close() } }

    private func post() {
        // At the end, the timer has the deadline of `finish(within:_:)`.
        if whenEmpty == nil { timer?.disarm() }
        queue.fillBatch()
        guard !queue.batch.isEmpty else { return state = .collecting }
        state = .sending
        var request = HTTPClientRequest(method: "POST", url: target.url, body: target.request.body(queue.batch))
        request.headers = [HTTPField("Content-Type", "application/json")] + target.headers
        request.timeout = times.patience
        request.responseLimit = Self.answerLimit
        request.route.version = .http1
        request.route.authority = target.authority
        http.send(request) { [weak self] result in self?.answered(result) }
    }

    private func answered(_ result: Result<HTTPClientResponse, HTTPClientError>) {
        guard case .sending = state else { return }
        switch result {
        case .success(let response):
            answered(
                ExportAnswer(
                    status: response.status, body: response.body, retryAfter: response.header("retry-after")))
        case .failure(let error) where error.code == .bodyTooLarge:
            // The collector has perhaps accepted the spans, so the request is not repeated.
            refused(error.sentence)
        case .failure(let error): failed(error.sentence, wish: nil)
        }
    }

    private func answered(_ answer: ExportAnswer) {
        switch answer {
        case .taken(let rejected, let message):
            let count = queue.finishBatch()
            let lost = min(rejected, count)
            figures.count(.spanSent, by: UInt64(count - lost))
            if lost > 0 { figures.count(.spanDropped, by: UInt64(lost)) }
            if lost > 0 || !message.isEmpty { tellRefusal(message, lost) }
            goOn()
        case .again(let wish, let message): failed(message, wish: wish)
        case .refused(let message): refused(message)
        }
    }

    private func refused(_ message: String) {
        let count = queue.finishBatch()
        figures.count(.spanDropped, by: UInt64(count))
        tellRefusal(message, count)
        goOn()
    }

    /// Waits for the next batch after the collector has answered.
    private func goOn() {
        pause = times.shortestPause
        if isAway {
            isAway = false
            log.notice("the OTLP collector accepts spans again", [.target: .text(target.place)])
        }
        state = .collecting
        if whenEmpty != nil { return queue.count == 0 ? close() : post() }
        if queue.count >= SpanQueue.batchLimit { return post() }
        if queue.count > 0 { timer?.arm(at: loop.now + times.batch) }
    }

    /// Sends the batch again after a pause.
    private func failed(_ reason: String, wish: Int?) {
        tellAway(reason)
        if whenEmpty != nil { return close() }
        state = .pausing
        let wait: Duration
        if let wish {
            wait = .seconds(min(max(wish, 1), Self.longestWish))
        } else {
            // The pauses are random, so that daemons do not all come back in the same moment.
            wait = pause * Double.random(in: 0.5...1)
            pause = min(pause * 2, times.longestPause)
        }
        timer?.arm(at: loop.now + wait)
    }

    private func close() {
        guard let done = whenEmpty else { return }
        state = .over
        timer = nil
        let lost = queue.removeAll()
        if lost > 0 {
            figures.count(.spanDropped, by: UInt64(lost))
            log.warning(
                "spans were lost, because the OTLP collector did not accept them in time",
                [.target: .text(target.place), .count: .number(lost)])
        }
        whenEmpty = nil
        // The loop closes the session later, because one of the session's functions may be running now.
        loop.post { [http] in http.close() }
        done()
    }

    // MARK: Log

    private func overflowed(_ count: Int) {
        figures.count(.spanDropped, by: UInt64(count))
        guard let suppressed = lossLog.admit(now: loop.now) else { return }
        log.warning(
            "too many spans wait for the OTLP collector, so the oldest are dropped",
            [.target: .text(target.place), .setting: "otlp.queue", .suppressed: .number(suppressed)])
    }

    private func tellAway(_ reason: String) {
        isAway = true
        guard let suppressed = awayLog.admit(now: loop.now) else { return }
        log.warning(
            "spans do not reach the OTLP collector",
            [
                .target: .text(target.place), .reason: .text(struck(reason)), .setting: "otlp.url",
                .suppressed: .number(suppressed),
            ])
    }

    private func tellRefusal(_ message: String, _ count: Int) {
        guard let suppressed = refusalLog.admit(now: loop.now) else { return }
        log.warning(
            "the OTLP collector refused spans",
            [
                .target: .text(target.place), .reason: .text(struck(message)), .count: .number(count),
                .suppressed: .number(suppressed),
            ])
    }

    /// The text without the secrets of the header fields, because a collector's answer can quote the secrets.
    private func struck(_ text: String) -> String {
        var text = text
        for value in target.headers.map(\.value) {
            for secret in [value] + value.split(separator: " ").map(String.init) where secret.utf8.count >= 6 {
                text = text.replacing(secret, with: "…")
            }
        }
        return text
    }
}
