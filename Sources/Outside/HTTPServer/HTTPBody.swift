import Reactor

/// The body of an answer that any thread sends in pieces, so that the whole body is never in memory.
///
/// The release of an ``HTTPBody`` before ``end()`` closes the connection, so that the client notices the incomplete
/// body.
package final class HTTPBody: Sendable {
    private let number: UInt64
    private let loop: EventLoop
    private let listener: ReplyListener

    init(of number: UInt64, on loop: EventLoop, _ listener: ReplyListener) {
        self.number = number
        self.loop = loop
        self.listener = listener
    }

    /// Closes the connection unless ``end()`` was called.
    deinit {
        let (listener, number) = (listener, number)
        loop.dispose { listener.hangUp(number) }
    }

    /// Sends a piece of the body, and returns when the client has read enough that another piece has room. The next
    /// piece must not be sent before ``send(_:)`` has returned.
    ///
    /// - Returns: whether another piece is needed; false if the client has disconnected or needs no body.
    package func send(_ piece: [UInt8]) async -> Bool {
        let (listener, number) = (listener, number)
        return await withCheckedContinuation { waiter in
            loop.dispose { listener.send(number, piece) { waiter.resume(returning: $0) } }
        }
    }

    package func end() {
        let (listener, number) = (listener, number)
        loop.dispose { listener.endBody(number) }
    }
}
