import Reactor
package import Timekeeping

/// An active request and its completion.
///
/// - `@unchecked Sendable` because every use is checked to be on the loop's thread.
package final class HTTPExchange: @unchecked Sendable {
    package let request: HTTPClientRequest
    package let started: Instant
    private let loop: EventLoop
    private var completion: HTTPSession.Completion?
    /// The group of the request; `nil` when the request has ended.
    private var group: RequestGroup?
    /// The request's place among the requests of its group.
    package private(set) var number = 0
    private var deadline = DeadlineID.none
    /// The index of the transport that accepted the request, among the transports of the group.
    var transport = 0

    // The following values belong to the transport that accepted the request.
    /// The connection that carries the request; `nil` while the request waits for one.
    package var connection: AnyObject?
    /// The number of the request's stream on its connection.
    package var stream = 0
    /// How many times the request was sent.
    package var tries = 0
    /// Whether a connection is being opened for this request.
    package var opensConnection = false

    package var isUnderWay: Bool { group != nil }

    init(_ request: HTTPClientRequest, loop: EventLoop, _ completion: @escaping HTTPSession.Completion) {
        self.request = request
        self.loop = loop
        self.completion = completion
        started = loop.now
    }

    func joined(_ group: RequestGroup, number: Int, deadline: DeadlineID) {
        self.group = group
        self.number = number
        self.deadline = deadline
    }

    /// Cancels the request. The completion gets the error `cancelled`. Does nothing if the request has ended.
    package func cancel() {
        guard let group else { return }
        group.takeBack(self)
        finishLater(HTTPClientError(.cancelled))
    }

    /// Ends the request and calls the completion. Does nothing if the request has ended.
    package func finish(_ outcome: Result<HTTPClientResponse, HTTPClientError>) {
        guard isUnderWay else { return }
        leave()
        complete(outcome)
    }

    /// Offers the request to the next transport, because the current one cannot carry it.
    package func passOn() { group?.offer(self, from: transport + 1) }

    func finishLater(_ error: HTTPClientError) {
        leave()
        loop.post { self.complete(.failure(error)) }
    }

    private func leave() {
        group?.forget(deadline)
        group = nil
        connection = nil
    }

    private func complete(_ outcome: Result<HTTPClientResponse, HTTPClientError>) {
        let completion = completion
        self.completion = nil
        completion?(outcome)
    }
}
