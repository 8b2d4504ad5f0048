import Reactor

/// The body of an answer in pieces, from any thread, so that the whole body is never in memory.
///
/// Releasing it before its end closes the connection, which shows the client that the body is incomplete.
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

    /// Sends a piece, and returns when the client has read enough to leave room for another one. Do not call it again
    /// before that.
    ///
    /// - Returns: whether another piece is wanted: false if the client is gone, or wants no body.
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
