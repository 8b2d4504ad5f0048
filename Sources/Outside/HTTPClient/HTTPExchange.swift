import Reactor
package import Timekeeping

/// An active HTTP request, with the completion that runs when the request ends.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread.
package final class HTTPExchange: @unchecked Sendable {
    package let request: HTTPClientRequest
    package let started: Instant
    private let loop: EventLoop
    private var completion: HTTPSession.Completion?
    /// The ``RequestGroup`` of the request; `nil` after the request has ended.
    private var group: RequestGroup?
    /// The id of the HTTP request among the active requests of its request group.
    package private(set) var number = 0
    private var deadline = DeadlineID.none
    /// The index of the transport that sends the request, in the list of the request's group.
    var transport = 0

    // The properties `connection`, `stream`, `tries` and `opensConnection` belong to the transport that sends the
    // request.
    /// The connection that sends the request; `nil` while the request waits for a connection.
    package var connection: AnyObject?
    /// The index of the request's stream on its connection.
    package var stream = 0
    /// The number of times that the request was sent.
    package var tries = 0
    /// Whether a connection is being opened for the request.
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

    /// Cancels the request, and calls its completion with the error `cancelled`. If the request has already ended,
    /// ``cancel()`` does nothing.
    package func cancel() {
        guard let group else { return }
        group.takeBack(self)
        finishLater(HTTPClientError(.cancelled))
    }

    /// Ends the request, and calls its completion with the outcome. If the request has already ended, ``finish(_:)``
    /// does nothing.
    package func finish(_ outcome: Result<HTTPClientResponse, HTTPClientError>) {
        guard isUnderWay else { return }
        leave()
        complete(outcome)
    }

    /// Offers the request to the group's next transport, because the present transport cannot send it.
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
