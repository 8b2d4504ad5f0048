/// Why a connection ended without our asking for it.
package enum StreamCloseReason: Hashable, Sendable {
    case peerClosed
    /// Connecting, reading or writing failed: refused, unreachable, reset.
    case system(SystemError)
    /// The handshake failed or a record was bad; the text is OpenSSL's.
    case tls(String)
    /// TCP or TLS was not established in time.
    case openTimeout
    /// Nothing arrived for the time allowed.
    case idle
    /// The peer takes no bytes any more.
    case outputStalled
    /// More bytes waited to be sent than allowed.
    case outputOverflow
    /// More bytes waited to be consumed than allowed, because the handler found no end of a message in them.
    case inputOverflow
    /// All is sent, after ``StreamConnection/finish()``.
    case finished
}

extension StreamConnection {
    /// What happens on a connection. One value may serve many connections.
    package struct Handlers {
        /// The connection is open both ways, TLS included. It is called once, and first.
        package var connected: (StreamConnection) -> Void
        /// Lends all bytes that wait for the length of the call, and returns how many were used. The rest comes again
        /// with what follows it.
        package var received: (StreamConnection, Span<UInt8>) -> Int
        /// The connection has ended. It is called once, and last, but not after ``StreamConnection/close(flushing:)``.
        package var closed: (StreamConnection, StreamCloseReason) -> Void
        /// The peer has taken most of what was more than ``StreamConnection/outputMark``.
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
        /// How many bytes may wait for the handler to use them. It must be more than the longest message has.
        package var input = 128 << 10
        /// How many bytes may wait for the peer to take them.
        package var output = 256 << 10
        /// If more bytes than this wait for the peer, nothing is read from it until a quarter of them is left; `nil` if
        /// output does not hold up input.
        package var outputMark: Int?
        /// Whether what waits is still sent to a peer that has ended its side.
        package var answersAfterEnd = false
        /// How long TCP and TLS together may take to open.
        package var openTimeout: Duration = .seconds(10)
        /// How long the peer may take no byte while some wait.
        package var outputTimeout: Duration = .seconds(30)
        /// When the connection's events are handled. In the turn of the connections also its beginning and its end wait until
        /// those of others before it are done.
        package var turn = LoopTurn.usual

        package init() {}
    }
}
