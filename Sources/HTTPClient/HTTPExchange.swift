import Reactor
import Timekeeping

/// A request under way.
///
/// - `@unchecked Sendable` because every use is checked to be on the loop's thread.
package final class HTTPExchange: @unchecked Sendable {
    let request: HTTPClientRequest
    private let loop: EventLoop
    private var completion: HTTPSession.Completion?

    // Over libcurl.
    private var easy: EasyHandle?
    private weak var group: ConnectionGroup?

    // Over our own HTTP/2.
    /// Where it waits or has been sent; `nil` when it is over.
    var origin: HTTP2Origin?
    /// `nil` while it waits.
    var connection: HTTP2Connection?
    /// The stream on that connection.
    var stream = 0
    var started = Instant.distantPast
    var sent = Instant.distantPast
    var deadline = DeadlineID.none
    /// Its place among the requests of its origin.
    var number = 0
    /// How often it was sent.
    var tries = 0
    /// A connection was made for it.
    var opensConnection = false

    var isWaiting: Bool { origin != nil && connection == nil }

    init(_ request: HTTPClientRequest, loop: EventLoop, _ completion: @escaping HTTPSession.Completion) {
        self.request = request
        self.loop = loop
        self.completion = completion
    }

    func started(_ easy: EasyHandle, in group: ConnectionGroup) {
        self.easy = easy
        self.group = group
    }

    /// Takes the request back; its completion comes with `cancelled`. Nothing happens once it is finished.
    package func cancel() {
        guard completion != nil else { return }
        if let origin {
            origin.cancel(self)
        } else if let easy {
            group?.cancel(easy)
            self.easy = nil
        } else {
            return
        }
        finishLater(HTTPClientError(.cancelled))
    }

    func finishLater(_ error: HTTPClientError) { loop.post { self.finish(.failure(error)) } }

    func finish(_ outcome: Result<HTTPClientResponse, HTTPClientError>) {
        easy = nil
        let completion = completion
        self.completion = nil
        completion?(outcome)
    }
}
