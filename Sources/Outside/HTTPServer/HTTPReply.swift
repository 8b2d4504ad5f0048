package import HTTPSemantics
package import Reactor

/// Answers one request, once, at any time and on any thread.
///
/// If an ``HTTPReply`` is released without an answer, the client gets a 500. If the client has disconnected, the answer
/// is dropped.
package final class HTTPReply: Sendable {
    private let loop: EventLoop
    private let number: UInt64
    private let listener: ReplyListener
    private let isSent = Locked(false)

    init(to number: UInt64, on loop: EventLoop, of listener: HTTPListener) {
        self.number = number
        self.loop = loop
        self.listener = ReplyListener(listener)
    }

    deinit {
        guard !isSent.withLock({ $0 }) else { return }
        let (listener, number) = (listener, number)
        loop.dispose { listener.answer(number, with: HTTPResponse(status: 500, text: "no answer")) }
    }

    package func send(_ response: HTTPResponse) {
        use { $0.answer($1, with: response) }
    }

    /// Begins an answer whose body is sent in pieces; the body of `response` is the first piece.
    package func stream(_ response: HTTPResponse) -> HTTPBody {
        use { $0.begin($1, with: response) }
        return HTTPBody(of: number, on: loop, listener)
    }

    /// Closes the connection without an answer.
    package func hangUp() {
        use { $0.hangUp($1) }
    }

    /// Answers with 101 and the given fields, and passes the connection to another protocol's code (RFC 9110 section
    /// 7.8). The function `take` gets the connection and the input after the request.
    package func upgrade(
        _ fields: [HTTPField], _ take: @escaping @Sendable (StreamConnection, [UInt8]) -> Void
    ) {
        use { $0.upgrade($1, fields, take) }
    }

    private func use(_ body: @escaping @Sendable (ReplyListener, UInt64) -> Void) {
        let isFirst = isSent.withLock { isSent in
            defer { isSent = true }
            return !isSent
        }
        precondition(isFirst, "a request is answered once")
        let (listener, number) = (listener, number)
        loop.dispose { body(listener, number) }
    }
}

/// A weak reference to the listener, which may be closed before the answer is known.
final class ReplyListener: Sendable {
    private weak let listener: HTTPListener?

    init(_ listener: HTTPListener) { self.listener = listener }

    func answer(_ number: UInt64, with response: HTTPResponse) { listener?.answer(number, with: response) }

    func begin(_ number: UInt64, with response: HTTPResponse) { listener?.begin(number, with: response) }

    func send(_ number: UInt64, _ piece: [UInt8], _ asks: @escaping (Bool) -> Void) {
        guard let listener else { return asks(false) }
        listener.send(number, piece, asks)
    }

    func endBody(_ number: UInt64) { listener?.endBody(number) }

    func hangUp(_ number: UInt64) { listener?.hangUp(number) }

    func upgrade(
        _ number: UInt64, _ fields: [HTTPField], _ take: @escaping @Sendable (StreamConnection, [UInt8]) -> Void
    ) {
        listener?.upgrade(number, fields, take)
    }
}
