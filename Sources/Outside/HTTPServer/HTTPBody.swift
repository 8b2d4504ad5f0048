import Reactor

/// The body of an answer that is sent in pieces, from any thread, so that the whole body is never in memory.
///
/// If the object is released before ``end()``, the connection is closed, so that the client notices that the body is
/// incomplete.
package final class HTTPBody: Sendable {
    private let number: UInt64
    private let loop: EventLoop
    private let listener: ReplyListener

    init(of number: UInt64, on loop: EventLoop, _ listener: ReplyListener) {
        self.number = number
        self.loop = loop
        self.listener = listener
    }

    /// Closes the connection if ``end()`` was not called.
    deinit {
        let (listener, number) = (listener, number)
        loop.dispose { listener.hangUp(number) }
    }

    /// Sends a piece. The function returns when the client has read so much that there is room for another piece. Only
    /// one call may be active at a time.
    ///
    /// - Returns: whether another piece is needed; false if the client has disconnected, or wants no body.
    package func send(_ piece: [UInt8]) async -> Bool {
        let (listener, number) = (listener, number)
        return await withCheckedContinuation { waiter in
            loop.dispose { listener.send(number, piece) { waiter.resume(returning: $0) } }
        }
    }

    /// Ends the body. After ``end()``, no piece can be sent.
    package func end() {
        let (listener, number) = (listener, number)
        loop.dispose { listener.endBody(number) }
    }
}
