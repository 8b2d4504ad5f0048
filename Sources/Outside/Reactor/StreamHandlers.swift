/// The reason why a connection ended, unless its owner closed it by ``StreamConnection/close(flushing:)``.
package enum StreamCloseReason: Hashable, Sendable {
    case peerClosed
    /// The system reported an error of connecting, reading or writing, such as "connection refused".
    case system(SystemError)
    /// The TLS handshake failed, or a TLS record was invalid; the text is OpenSSL's reason.
    case tls(String)
    /// The relay did not open a tunnel to the server.
    case tunnel(StreamTunnel.Failure)
    /// The connection was closed because TCP and TLS were not established in time.
    case openTimeout
    /// The peer sent nothing for longer than the idle limit.
    case idle
    /// The connection was closed because the peer did not read the output in time.
    case outputStalled
    /// More output waited than the limit allows.
    case outputOverflow
    /// More input is unused than the limit allows, because the handler found no end of a message.
    case inputOverflow
    /// The owner called ``StreamConnection/finish()``, and all output is sent.
    case finished
}

extension StreamConnection {
    /// The functions by which a connection reports input and events to its owner. The handlers do not belong to one
    /// connection, so many connections can share one value.
    package struct Handlers {
        /// The function that is called once, before all other handlers, when the connection and its TLS are
        /// established.
        package var connected: (StreamConnection) -> Void
        /// The function that is called with all input that waits; the result is the number of bytes that the handler
        /// has used. The handler gets the unused bytes again, together with the next input.
        package var received: (StreamConnection, Span<UInt8>) -> Int
        /// The function that is called once, after all other handlers, when the connection has ended. After
        /// ``StreamConnection/close(flushing:)``, the connection does not call the handler `closed`.
        package var closed: (StreamConnection, StreamCloseReason) -> Void
        /// The function that is called when the waiting output has exceeded ``StreamConnection/outputMark``, and has
        /// then fallen to a quarter of this mark.
        package var drained: (StreamConnection) -> Void

        package init(
            connected: @escaping (StreamConnection) -> Void,
            received: @escaping (StreamConnection, Span<UInt8>) -> Int,
            closed: @escaping (StreamConnection, StreamCloseReason) -> Void,
            drained: @escaping (StreamConnection) -> Void = { _ in }
        ) {
            self.connected = connected
            self.received = received
            self.closed = closed
            self.drained = drained
        }
    }

    /// The limits of one connection.
    package struct Limits: Hashable, Sendable {
        /// The maximum number of bytes of input that the handler can leave unused. The limit for unused input must be
        /// higher than the length of the longest message.
        package var input = 128 << 10
        /// The maximum size in bytes of the output that may wait on the connection.
        package var output = 256 << 10
        /// If more bytes of output wait than the mark allows, the connection stops reading from the peer. The
        /// connection reads again when the waiting output has fallen to a quarter of the limit (the mark). If the mark
        /// (the limit of waiting output) is `nil`, the connection never stops reading.
        package var outputMark: Int?
        /// Whether waiting output is still sent after the peer has ended its side.
        package var answersAfterEnd = false
        /// The time limit for opening TCP and TLS together.
        package var openTimeout: Duration = .seconds(10)
        /// How long the peer can read nothing of the waiting output before the connection is closed.
        package var outputTimeout: Duration = .seconds(30)
        /// The priority of the connection's events. A connection with the priority `connections` starts and ends only
        /// after earlier connections have started and ended.
        package var turn = LoopTurn.usual

        package init() {}
    }
}
