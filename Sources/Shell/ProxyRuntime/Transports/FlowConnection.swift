import Addressing
import Reactor
import SIPMessage
import WebSocket

/// One connection of ``StreamFlows``, with what cuts its bytes into messages.
final class FlowConnection {
    let stream: StreamConnection
    let flow: Flow
    let isOutgoing: Bool
    var framer = StreamFramer()
    /// What cuts the bytes in the framer's place; `nil` where no WebSocket is spoken.
    let webSocket: WebSocketSession?
    /// Whether something has come since the last ping.
    var isAlive = true
    var standing: FlowAdmission.Standing
    /// What else it is asked for by, though its peer has opened it (RFC 5923).
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

    /// Sends what the WebSocket has to say.
    func flush() {
        guard let bytes = webSocket?.takeOutput(), !bytes.isEmpty else { return }
        stream.send(bytes)
    }
}
