import Reactor
package import Timekeeping

/// An active HTTP request, with the completion that runs at its end.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread.
package final class HTTPExchange: @unchecked Sendable {
    package let request: HTTPClientRequest
    package let started: Instant
    private let loop: EventLoop
    private var completion: HTTPSession.Completion?
    /// The group of the request; `nil` after its end.
    private var group: RequestGroup?
    /// The request's id in its group.
    package private(set) var number = 0
    private var deadline = DeadlineID.none
    /// The index of the transport that sends the request, in its group's list.
    var transport = 0

    // The connection that sends the request; `nil` while the request waits for a connection. Only the transport uses
    // `connection`, `stream`, `tries` and `opensConnection`.
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

    /// Cancels the request, unless it has ended, and calls its completion with the error `cancelled`.
    package func cancel() {
        guard let group else { return }
        group.takeBack(self)
        finishLater(HTTPClientError(.cancelled))
    }

    /// Ends the request, unless it has ended, and calls its completion with the response or the error.
    package func finish(_ outcome: Result<HTTPClientResponse, HTTPClientError>) {
        guard isUnderWay else { return }
        leave()
        complete(outcome)
    }

    /// Offers the request to the group's next transport, because the present one cannot send it.
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
