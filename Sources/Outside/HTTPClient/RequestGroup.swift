import Reactor
import Timekeeping

/// The active requests of one group, which share connections and limits.
final class RequestGroup {
    private let loop: EventLoop
    private let limits: HTTPSession.Limits
    private let names: HostNames
    private let kinds: [any HTTPTransport.Type]
    /// The transports created so far, in the order of `kinds`, each when a request first needed it.
    private var transports: [any HTTPTransport] = []
    /// The deadlines of the group's active HTTP requests.
    private var deadlines = DeadlineQueue<HTTPExchange>()
    private var timer: LoopTimer?
    private var sentCount = 0

    init(
        on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames, _ kinds: [any HTTPTransport.Type]
    ) throws(HTTPClientError) {
        self.loop = loop
        self.limits = limits
        self.names = names
        self.kinds = kinds
        do throws(SystemError) {
            timer = try LoopTimer(on: loop) { [weak self] in self?.deadlineCame() }
        } catch {
            throw HTTPClientError(.failed, detail: error.description)
        }
    }

    func send(_ exchange: HTTPExchange) throws(HTTPClientError) {
        guard deadlines.count < limits.requests else {
            throw HTTPClientError(.failed, detail: "too many active requests")
        }
        let end = exchange.started + exchange.request.timeout
        exchange.joined(self, number: sentCount, deadline: deadlines.schedule(exchange, at: end))
        sentCount += 1
        if timer?.deadline.map({ end < $0 }) ?? true { timer?.arm(at: end) }
        offer(exchange, from: 0)
    }

    /// Offers the request to each transport from the index `first` on, until one accepts it.
    func offer(_ exchange: HTTPExchange, from first: Int) {
        do throws(HTTPClientError) {
            for index in first..<kinds.count {
                exchange.transport = index
                if try transport(index).send(exchange) { return }
            }
            throw HTTPClientError(.invalidRequest, detail: "no client for such a server")
        } catch {
            exchange.finishLater(error)
        }
    }

    private func transport(_ index: Int) throws(HTTPClientError) -> any HTTPTransport {
        while transports.count <= index {
            transports.append(try kinds[transports.count].init(on: loop, limits: limits, names: names))
        }
        return transports[index]
    }

    func takeBack(_ exchange: HTTPExchange) { transports[exchange.transport].takeBack(exchange) }

    func forget(_ deadline: DeadlineID) { deadlines.cancel(deadline) }

    func keepWarm(_ request: HTTPClientRequest) throws(HTTPClientError) { try transport(0).keepWarm(request) }

    /// Ends all requests of the group: their completions get the given error.
    func close(_ error: HTTPClientError) {
        for exchange in transports.flatMap({ $0.close() }) { exchange.finish(.failure(error)) }
    }

    private func deadlineCame() {
        let now = loop.now
        while let exchange = deadlines.popExpired(now: now) {
            let delay = transports[exchange.transport].delay(of: exchange)
            takeBack(exchange)
            exchange.finish(.failure(delay ?? HTTPClientError(.timeout, detail: "no answer in time")))
        }
        if let next = deadlines.nextDeadline { timer?.arm(at: next) }
    }
}
