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
    /// `nil` when it is over.
    private var group: RequestGroup?
    /// Its place among the requests of its group.
    package private(set) var number = 0
    private var deadline = DeadlineID.none
    /// Which transport of the group has it.
    var transport = 0

    // Kept here for that transport.
    /// What it leaves on; `nil` while it waits.
    package var connection: AnyObject?
    /// Its number there.
    package var stream = 0
    /// How often it was sent.
    package var tries = 0
    /// A connection was made for it.
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

    /// What came of it. Nothing happens when it is over.
    package func finish(_ outcome: Result<HTTPClientResponse, HTTPClientError>) {
        guard isUnderWay else { return }
        leave()
        complete(outcome)
    }

    /// The transport that took it finds that it can not carry it.
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
