/// The transports of SIP (RFC 3261 section 18, RFC 7118).
package enum Transport: UInt8, Hashable, Sendable, CaseIterable {
    case udp, tcp, tls, ws, wss

    /// Written by hand, because the compiler's own `==` is slower in other modules.
    @inlinable
    package static func == (left: Transport, right: Transport) -> Bool { left.rawValue == right.rawValue }

    /// Whether the transport delivers all bytes or reports a failure. SIP's retransmission timers run only for UDP, the
    /// only unreliable transport (RFC 3261 section 17).
    package var isReliable: Bool { self != .udp }

    /// Whether the transport encrypts the bytes (RFC 5630).
    package var isSecure: Bool { self == .tls || self == .wss }

    /// Whether the transport is a WebSocket (`ws` or `wss`), which only the phone can open (RFC 7118).
    package var isWebSocket: Bool { self == .ws || self == .wss }

    /// The transport's name in a Via header field.
    package var viaName: String {
        switch self {
        case .udp: "UDP"
        case .tcp: "TCP"
        case .tls: "TLS"
        case .ws: "WS"
        case .wss: "WSS"
        }
    }

    /// The transport's name in settings and in the URI parameter `transport=`.
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

/// A number for the host name of a TLS server in a ``Flow``. The code that opens connections assigns the numbers, which
/// are valid until the program ends.
package struct ServerNumber: Hashable, Sendable {
    package let rawValue: UInt16

    package init(_ rawValue: UInt16) { self.rawValue = rawValue }

    /// The number for a server that is identified only by its address.
    package static let none = ServerNumber(0)
}

/// The network path of a message and its answer (RFC 5626): a connection, or over UDP a pair of addresses.
package struct Flow: Hashable, Sendable {
    // The small properties come first, so that they share one eight-byte word in memory.
    package let transport: Transport
    /// The server whose name the certificate must contain when a connection is opened for the flow.
    package let server: ServerNumber
    /// The index of the listener in the settings; the listener determines the local address of the flow.
    package let listener: UInt16
    /// The id of the stream connection, unique in the process; 0 for UDP.
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

    /// The flow to the same peer on the given connection; 0 stands for any connection.
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
    /// The connection id of closed flows, which no open connection has.
    private static let noConnection = UInt64.max

    /// The flow marked as closed, which still names the peer, but on which no message can be sent.
    package var closed: Flow {
        guard transport.isReliable else { return self }
        return on(connection: Self.noConnection)
    }

    /// Whether the flow's stream connection has been closed.
    package var isClosed: Bool { transport.isReliable && connection == Self.noConnection }

    /// Whether the flow means one open connection, and not any connection to the peer.
    package var isConnection: Bool { transport.isReliable && connection != 0 && connection != Self.noConnection }
}
