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

/// The holder of a flow's connection: a node, and one of its shards.
package struct FlowHolder: Hashable, Sendable {
    package let node: UInt16
    package let shard: UInt8

    package init(node: UInt16, shard: UInt8) {
        self.node = node
        self.shard = shard
    }

    /// The only holder while one node with one shard exists.
    package static let here = FlowHolder(node: 0, shard: 0)
}

/// The number of a TLS server's name, so that a ``Flow`` can identify the server. Only the part that opens connections
/// knows the name, and only in this run of the program.
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
    // In two halves, which fill gaps between other fields.
    private let serverHigh: UInt8
    package let holder: FlowHolder
    private let serverLow: UInt8
    /// Our listener, by its number in the order of the configuration. It determines the local address.
    package let listener: UInt16
    /// The number of the stream connection, unique in a process; 0 for UDP.
    package let connection: UInt64
    package let remote: Endpoint

    package init(
        transport: Transport, listener: UInt16, connection: UInt64, remote: Endpoint, holder: FlowHolder = .here,
        server: ServerNumber = .none
    ) {
        self.transport = transport
        self.holder = holder
        self.listener = listener
        self.connection = connection
        self.remote = remote
        serverHigh = UInt8(truncatingIfNeeded: server.rawValue >> 8)
        serverLow = UInt8(truncatingIfNeeded: server.rawValue)
    }

    /// The server whose certificate is required on a connection that is opened for this flow.
    package var server: ServerNumber { ServerNumber(UInt16(serverHigh) << 8 | UInt16(serverLow)) }

    /// The same flow on another connection, or on any if `connection` is 0.
    package func on(connection: UInt64) -> Flow {
        Flow(
            transport: transport, listener: listener, connection: connection, remote: remote, holder: holder,
            server: server)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(
            UInt64(transport.rawValue) | UInt64(holder.shard) << 8 | UInt64(holder.node) << 16
                | UInt64(listener) << 32)
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
