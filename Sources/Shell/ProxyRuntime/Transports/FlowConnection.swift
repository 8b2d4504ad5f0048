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
    /// The parser that replaces the framer; `nil` without WebSocket.
    let webSocket: WebSocketSession?
    /// Whether bytes arrived since the last ping.
    var isAlive = true
    var standing: FlowAdmission.Standing
    /// The second flow by which it can be addressed although its peer opened it (RFC 5923).
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

    /// Sends the waiting output of the WebSocket.
    func flush() {
        guard let bytes = webSocket?.takeOutput(), !bytes.isEmpty else { return }
        stream.send(bytes)
    }
}
