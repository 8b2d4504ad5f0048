/// Why a connection ended, unless its owner closed it by ``StreamConnection/close(flushing:)``.
package enum StreamCloseReason: Hashable, Sendable {
    case peerClosed
    /// The system reported an error while connecting, reading or writing: refused, unreachable, reset.
    case system(SystemError)
    /// The handshake failed, or a TLS record was invalid. The text is OpenSSL's.
    case tls(String)
    /// The relay did not open a tunnel to the server.
    case tunnel(StreamTunnel.Failure)
    /// TCP and TLS were not established in time.
    case openTimeout
    /// No input arrived within the time limit.
    case idle
    /// The peer did not read the output in time.
    case outputStalled
    /// More output waited than the limit allows.
    case outputOverflow
    /// More unused input waited than the limit allows, because the handler found no end of a message.
    case inputOverflow
    /// The owner called ``StreamConnection/finish()``, and all output is sent.
    case finished
}

extension StreamConnection {
    /// The handlers of a connection. One value of this type may serve many connections.
    package struct Handlers {
        /// Called once, before all other handlers, when the connection is open in both directions, including TLS.
        package var connected: (StreamConnection) -> Void
        /// Called with all input that waits. The handler returns how many bytes it used. The unused bytes are passed
        /// again together with the next input.
        package var received: (StreamConnection, Span<UInt8>) -> Int
        /// Called once, after all other handlers, when the connection has ended. After
        /// ``StreamConnection/close(flushing:)`` this handler is not called.
        package var closed: (StreamConnection, StreamCloseReason) -> Void
        /// Called when the peer has read most of the output above ``StreamConnection/outputMark``.
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
        /// How many bytes of unused input may wait. The limit must be higher than the length of the longest message.
        package var input = 128 << 10
        /// How many bytes of output may wait.
        package var output = 256 << 10
        /// The number of bytes of waiting output above which reading from the peer stops. Reading resumes when a
        /// quarter of this number waits. If the value is `nil`, reading never stops.
        package var outputMark: Int?
        /// Whether waiting output is sent even if the peer has ended its side.
        package var answersAfterEnd = false
        /// The time limit for opening TCP and TLS together.
        package var openTimeout: Duration = .seconds(10)
        /// How long waiting output may make no progress before the connection is closed.
        package var outputTimeout: Duration = .seconds(30)
        /// The priority of the connection's events. For the priority `connections`, the start and the end of the
        /// connection also wait for the starts and ends of earlier connections.
        package var turn = LoopTurn.usual

        package init() {}
    }
}
