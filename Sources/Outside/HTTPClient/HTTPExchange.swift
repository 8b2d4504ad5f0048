import Reactor
package import Timekeeping

/// An active request.
///
/// - `@unchecked Sendable` because every use is checked to be on the loop's thread.
package final class HTTPExchange: @unchecked Sendable {
    package let request: HTTPClientRequest
    package let started: Instant
    private let loop: EventLoop
    private var completion: HTTPSession.Completion?
    /// The group of the request; `nil` when it is over.
    private var group: RequestGroup?
    /// Its place among the requests of its group.
    package private(set) var number = 0
    private var deadline = DeadlineID.none
    /// The index of the group's transport that accepted it.
    var transport = 0

    // The following values belong to that transport.
    /// The connection that carries it; `nil` while it waits for one.
    package var connection: AnyObject?
    /// Its number on that connection.
    package var stream = 0
    /// How many times it was sent.
    package var tries = 0
    /// Whether a connection is being opened for it.
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

    /// Cancels the request; its completion gets `cancelled`. Does nothing once it is finished.
    package func cancel() {
        guard let group else { return }
        group.takeBack(self)
        finishLater(HTTPClientError(.cancelled))
    }

    /// Ends the request and calls its completion. Does nothing when it is over.
    package func finish(_ outcome: Result<HTTPClientResponse, HTTPClientError>) {
        guard isUnderWay else { return }
        leave()
        complete(outcome)
    }

    /// Offers the request to the next transport: the one that accepted it cannot carry it.
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
