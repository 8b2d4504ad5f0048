/// Why a connection ended without a call of the owner.
package enum StreamCloseReason: Hashable, Sendable {
    case peerClosed
    /// Connecting, reading or writing failed: refused, unreachable, reset.
    case system(SystemError)
    /// The handshake failed or a record was bad; the text is OpenSSL's.
    case tls(String)
    /// TCP or TLS was not established in time.
    case openTimeout
    /// No input within the time limit.
    case idle
    /// The peer stopped reading.
    case outputStalled
    /// More output waited than allowed.
    case outputOverflow
    /// More unused input waited than allowed, because the handler found no end of a message.
    case inputOverflow
    /// All output is sent, after ``StreamConnection/finish()``.
    case finished
}

extension StreamConnection {
    /// The handlers of a connection. One value may serve many connections.
    package struct Handlers {
        /// The connection is open both ways, including TLS. Called once, and first.
        package var connected: (StreamConnection) -> Void
        /// Lends all waiting input for the length of the call, and returns how many bytes were used. The rest comes
        /// again with further input.
        package var received: (StreamConnection, Span<UInt8>) -> Int
        /// The connection has ended. Called once, and last, but not after ``StreamConnection/close(flushing:)``.
        package var closed: (StreamConnection, StreamCloseReason) -> Void
        /// The peer has read most of the output beyond ``StreamConnection/outputMark``.
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

    /// Limits of one connection.
    package struct Limits: Hashable, Sendable {
        /// How many bytes of unused input may wait. It must exceed the longest message.
        package var input = 128 << 10
        /// How many bytes of output may wait.
        package var output = 256 << 10
        /// If more output than this waits, reading from the peer stops until a quarter is left; `nil` to never stop
        /// reading.
        package var outputMark: Int?
        /// Whether waiting output is still sent to a peer that ended its side.
        package var answersAfterEnd = false
        /// The time limit for opening TCP and TLS together.
        package var openTimeout: Duration = .seconds(10)
        /// The time limit for waiting output without progress.
        package var outputTimeout: Duration = .seconds(30)
        /// The turn of the connection's events. In the turn of connections, its start and end also wait for those of
        /// earlier connections.
        package var turn = LoopTurn.usual

        package init() {}
    }
}
