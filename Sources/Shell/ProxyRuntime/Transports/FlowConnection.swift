import Addressing
import Reactor
import SIPMessage
import WebSocket

/// One connection of ``StreamFlows``, with the parser that cuts its bytes into messages.
final class FlowConnection {
    let stream: StreamConnection
    let flow: Flow
    let isOutgoing: Bool
    var framer = StreamFramer()
    /// The WebSocket session, which cuts the bytes of the connection into messages instead of the framer. If the
    /// connection is no WebSocket, the session is `nil`.
    let webSocket: WebSocketSession?
    /// Whether bytes have arrived since the last WebSocket ping.
    var isAlive = true
    var standing: FlowAdmission.Standing
    /// A second flow that uses the connection: the peer opened the connection, and accepts requests at the alias's
    /// address (RFC 5923).
    var alias: Flow?

    init(
        stream: StreamConnection, flow: Flow, isOutgoing: Bool, standing: FlowAdmission.Standing,
        webSocket: WebSocketSession? = nil
    ) {
        self.stream = stream
        self.flow = flow
        self.isOutgoing = isOutgoing
        self.standing = standing
        self.webSocket = webSocket
    }

    func send(_ bytes: [UInt8]) {
        guard let webSocket else { return stream.send(bytes) }
        webSocket.send(bytes)
        flush()
    }

    /// Sends the output that waits in the WebSocket session.
    func flush() {
        guard let bytes = webSocket?.takeOutput(), !bytes.isEmpty else { return }
        stream.send(bytes)
    }
}
