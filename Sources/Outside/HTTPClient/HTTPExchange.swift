import Reactor
package import Timekeeping

/// A request under way.
///
/// - `@unchecked Sendable` because every use is checked to be on the loop's thread.
package final class HTTPExchange: @unchecked Sendable {
    package let request: HTTPClientRequest
    package let started: Instant
    private let loop: EventLoop
    private var completion: HTTPSession.Completion?
    /// The group that the request belongs to; `nil` when it is over.
    private var group: RequestGroup?
    /// Its place among the requests of its group.
    package private(set) var number = 0
    private var deadline = DeadlineID.none
    /// The index of the group's transport that has taken it.
    var transport = 0

    // What follows is kept here for that transport.
    /// The connection that it is sent on; `nil` while it waits for one.
    package var connection: AnyObject?
    /// The number that it has on that connection.
    package var stream = 0
    /// How often it was sent.
    package var tries = 0
    /// Whether a connection is being made because of it.
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

    /// Takes the request back; its completion comes with `cancelled`. Nothing happens once it is finished.
    package func cancel() {
        guard let group else { return }
        group.takeBack(self)
        finishLater(HTTPClientError(.cancelled))
    }

    /// Ends the request and tells whoever waits what came of it. Nothing happens when it is over.
    package func finish(_ outcome: Result<HTTPClientResponse, HTTPClientError>) {
        guard isUnderWay else { return }
        leave()
        complete(outcome)
    }

    /// Offers the request to the next transport: the one that took it finds that it cannot carry it.
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
