/// The transports of SIP (RFC 3261 section 18, RFC 7118).
package enum Transport: UInt8, Hashable, Sendable, CaseIterable {
    case udp, tcp, tls, ws, wss

    /// Written by hand, because the synthesized version uses a witness table in other modules.
    @inlinable
    package static func == (left: Transport, right: Transport) -> Bool { left.rawValue == right.rawValue }

    /// Retransmission timers run only on UDP (RFC 3261 section 17).
    package var isReliable: Bool { self != .udp }

    /// Whether no hop in between can read or change the bytes (RFC 5630).
    package var isSecure: Bool { self == .tls || self == .wss }

    /// Whether only the peer can open the connection: nobody listens at the other end (RFC 7118).
    package var isWebSocket: Bool { self == .ws || self == .wss }

    /// The name in a Via header field.
    package var viaName: String {
        switch self {
        case .udp: "UDP"
        case .tcp: "TCP"
        case .tls: "TLS"
        case .ws: "WS"
        case .wss: "WSS"
        }
    }

    /// The name in settings, and in a `transport=` URI parameter.
    package var parameterName: String {
        switch self {
        case .udp: "udp"
        case .tcp: "tcp"
        case .tls: "tls"
        case .ws: "ws"
        case .wss: "wss"
        }
    }

    package init?(parameter text: some StringProtocol) {
        switch text.lowercased() {
        case "udp": self = .udp
        case "tcp": self = .tcp
        case "tls": self = .tls
        case "ws": self = .ws
        case "wss": self = .wss
        default: return nil
        }
    }
}

/// Stands for the name of a TLS server, so that a ``Flow`` can say whom it means. Which name it is, is known to whoever
/// makes connections, and in this run of the program alone.
package struct ServerNumber: Hashable, Sendable {
    package let rawValue: UInt16

    package init(_ rawValue: UInt16) { self.rawValue = rawValue }

    /// The server is identified only by its address.
    package static let none = ServerNumber(0)
}

/// The connection, or for UDP the pair of addresses, by which a message arrived and an answer is sent (RFC 5626).
package struct Flow: Hashable, Sendable {
    // Small fields first, so that they share one word.
    package let transport: Transport
    /// Whose certificate a connection must show that is made for this flow.
    package let server: ServerNumber
    /// Which of our listeners, by its number in the configuration's order: it says which local address is used.
    package let listener: UInt16
    /// The number of the stream connection, unique in a process; 0 for UDP.
    package let connection: UInt64
    package let remote: Endpoint

    package init(
        transport: Transport, listener: UInt16, connection: UInt64, remote: Endpoint, server: ServerNumber = .none
    ) {
        self.transport = transport
        self.server = server
        self.listener = listener
        self.connection = connection
        self.remote = remote
    }

    /// The same way to the same peer on another connection, or on any if `connection` is 0.
    package func on(connection: UInt64) -> Flow {
        Flow(transport: transport, listener: listener, connection: connection, remote: remote, server: server)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(UInt64(transport.rawValue) | UInt64(listener) << 32)
        hasher.combine(connection)
        hasher.combine(remote)
    }
}

extension Flow {
    /// A number that no connection has.
    private static let noConnection = UInt64.max

    /// The flow after its connection was closed. It still contains the peer's address, but nothing can be sent on it.
    package var closed: Flow {
        guard transport.isReliable else { return self }
        return on(connection: Self.noConnection)
    }

    /// Whether it was a stream connection that was closed.
    package var isClosed: Bool { transport.isReliable && connection == Self.noConnection }

    /// Whether it is one specific stream connection, and not any connection to its remote.
    package var isConnection: Bool { transport.isReliable && connection != 0 && connection != Self.noConnection }
}
