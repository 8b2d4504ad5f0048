/// Why a connection ended without a call of its owner.
package enum StreamCloseReason: Hashable, Sendable {
    case peerClosed
    /// Connecting, reading or writing failed: refused, unreachable, reset.
    case system(SystemError)
    /// The handshake failed, or a record was invalid. The text is OpenSSL's.
    case tls(String)
    /// The relay on the way to the server did not lead there.
    case tunnel(StreamTunnel.Failure)
    /// TCP and TLS were not established in time.
    case openTimeout
    /// No input arrived within the time limit.
    case idle
    /// The peer did not read the waiting output in time.
    case outputStalled
    /// More output waited than the limit allows.
    case outputOverflow
    /// More unused input waited than the limit allows, because the handler found no end of a message.
    case inputOverflow
    /// The owner called ``StreamConnection/finish()``, and all output is sent.
    case finished
}

extension StreamConnection {
    /// The handlers of a connection. One value may serve many connections.
    package struct Handlers {
        /// The connection is open in both directions, including TLS. Called once, before the other handlers.
        package var connected: (StreamConnection) -> Void
        /// Gets all waiting input for the duration of the call, and returns how many bytes it used. The rest is passed
        /// again together with further input.
        package var received: (StreamConnection, Span<UInt8>) -> Int
        /// The connection has ended. Called once, after the other handlers, but not after
        /// ``StreamConnection/close(flushing:)``.
        package var closed: (StreamConnection, StreamCloseReason) -> Void
        /// The peer has read most of the output above ``StreamConnection/outputMark``.
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
        /// How many bytes of unused input may wait. The limit must exceed the longest message.
        package var input = 128 << 10
        /// How many bytes of output may wait.
        package var output = 256 << 10
        /// The number of bytes of waiting output above which reading from the peer stops. It resumes when a quarter of
        /// them waits. With `nil` reading never stops.
        package var outputMark: Int?
        /// Whether waiting output is still sent after the peer has ended its side.
        package var answersAfterEnd = false
        /// The time limit for opening TCP and TLS together.
        package var openTimeout: Duration = .seconds(10)
        /// How long waiting output may make no progress.
        package var outputTimeout: Duration = .seconds(30)
        /// The turn of the connection's events. With the turn of connections, its start and its end also wait for the
        /// starts and ends of earlier connections.
        package var turn = LoopTurn.usual

        package init() {}
    }
}
