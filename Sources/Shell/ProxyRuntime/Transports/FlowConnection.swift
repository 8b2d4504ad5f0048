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
    /// The WebSocket session, which cuts the bytes into messages instead of the framer; `nil` for other connections.
    let webSocket: WebSocketSession?
    /// Whether bytes have arrived since the last WebSocket ping.
    var isAlive = true
    /// Whether the connection is from or to another node that has shown its certificate.
    var isEstablished = false
    var standing: FlowAdmission.Standing
    /// A second flow on the connection; the peer accepts requests at the alias's address on this connection (RFC 5923).
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
