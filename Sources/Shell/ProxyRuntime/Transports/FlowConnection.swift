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
    /// The WebSocket, which cuts messages instead of the framer; `nil` for a connection without WebSocket.
    let webSocket: WebSocketSession?
    /// Whether bytes have arrived since the last ping.
    var isAlive = true
    var standing: FlowAdmission.Standing
    /// A second flow that uses this connection. The alias has the address at which the peer accepts requests, although
    /// the peer opened the connection (RFC 5923).
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

    /// Sends the output that waits in the WebSocket.
    func flush() {
        guard let bytes = webSocket?.takeOutput(), !bytes.isEmpty else { return }
        stream.send(bytes)
    }
}
