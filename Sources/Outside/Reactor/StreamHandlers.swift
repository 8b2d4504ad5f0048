/// Why a connection ended, unless its owner called ``StreamConnection/close(flushing:)``.
package enum StreamCloseReason: Hashable, Sendable {
    case peerClosed
    /// Connecting, reading or writing failed with a system error, such as "connection refused".
    case system(SystemError)
    /// The TLS handshake failed, or a TLS record was invalid; the text is OpenSSL's reason.
    case tls(String)
    /// The relay did not open a tunnel to the server.
    case tunnel(StreamTunnel.Failure)
    /// TCP and TLS were not established in time.
    case openTimeout
    /// The peer sent nothing for longer than the idle limit.
    case idle
    /// The peer did not read the output in time.
    case outputStalled
    /// More output waited than ``Limits/output`` allows.
    case outputOverflow
    /// More unused input waited than ``Limits/input`` allows, because the handler found no end of a message.
    case inputOverflow
    /// The owner called ``StreamConnection/finish()``, and all output was sent.
    case finished
}

extension StreamConnection {
    /// The functions by which a connection reports input and events to its owner; many connections can share one value.
    package struct Handlers {
        /// Called once, before all other handlers, when TCP and TLS are established.
        package var connected: (StreamConnection) -> Void
        /// Called with all waiting input; returns how many bytes the handler has used. The unused bytes are passed
        /// again, together with the next input.
        package var received: (StreamConnection, Span<UInt8>) -> Int
        /// Called once, after all other handlers, when the connection has ended. After
        /// ``StreamConnection/close(flushing:)``, `closed` is not called.
        package var closed: (StreamConnection, StreamCloseReason) -> Void
        /// Called when the waiting output had exceeded ``StreamConnection/outputMark``, and has fallen to a quarter of
        /// this number.
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
        /// The maximum number of bytes of unused input, which must exceed the length of the longest message.
        package var input = 128 << 10
        /// The maximum number of bytes of waiting output.
        package var output = 256 << 10
        /// If more bytes of output wait, the connection stops reading; `nil` for no limit. Reading resumes when the
        /// waiting output has fallen to a quarter of `outputMark`.
        package var outputMark: Int?
        /// Whether waiting output is still sent after the peer has ended its side.
        package var answersAfterEnd = false
        /// The time limit for opening TCP and TLS together.
        package var openTimeout: Duration = .seconds(10)
        /// If a peer reads none of the waiting output for this time, the connection is closed.
        package var outputTimeout: Duration = .seconds(30)
        /// The priority of the connection's events. Connections with the priority `connections` are opened and closed
        /// one after the other.
        package var turn = LoopTurn.usual

        package init() {}
    }
}
