import Reactor

/// The body of an answer, given in pieces from any thread, so that nobody holds the whole of it.
///
/// One that is released before its end ends the connection, by which the client knows that something is missing.
package final class HTTPBody: Sendable {
    private let number: UInt64
    private let loop: EventLoop
    private let listener: ReplyListener

    init(of number: UInt64, on loop: EventLoop, _ listener: ReplyListener) {
        self.number = number
        self.loop = loop
        self.listener = listener
    }

    /// After the end there is nothing to hang up.
    deinit {
        let (listener, number) = (listener, number)
        loop.dispose { listener.hangUp(number) }
    }

    /// Sends a piece, and returns when the client has taken so much that there is room for another; not to be called again
    /// before.
    ///
    /// - Returns: whether another is wanted: not when the client has gone, or wants no body.
    package func send(_ piece: [UInt8]) async -> Bool {
        let (listener, number) = (listener, number)
        return await withCheckedContinuation { waiter in
            loop.dispose { listener.send(number, piece) { waiter.resume(returning: $0) } }
        }
    }

    /// The body has no more pieces.
    package func end() {
        let (listener, number) = (listener, number)
        loop.dispose { listener.endBody(number) }
    }
}
