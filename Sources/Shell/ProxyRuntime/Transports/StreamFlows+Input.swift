import Addressing
import Reactor
import SIPMessage
import WebSocket

/// The input of connections: SIP messages and keep-alives, which the framer or the WebSocket separates.
extension StreamFlows {
    /// After this number of messages from one connection, other connections have their turn.
    private static let messagesInTurn = 16

    /// Cuts the input of a connection into messages and keep-alives, and handles them.
    ///
    /// - Returns: the number of input bytes that were processed.
    func received(_ bytes: Span<UInt8>, on stream: StreamConnection) -> Int {
        guard let connected = connections[stream.id], let shard else { return bytes.count }
        if let session = connected.webSocket { return received(bytes, by: session, of: connected) }
        var used = 0
        var left = Self.messagesInTurn
        while used < bytes.count {
            // The rest of the input waits until the peer has read earlier answers, or until the loop has served other
            // connections.
            if stream.isHeldUp { return used }
            guard left > 0 else {
                stream.endTurn()
                return used
            }
            left -= 1
            let rest = bytes.extracting(used..<bytes.count)
            var head: MessageHead?
            switch connected.framer.next(in: rest, head: &head) {
            case .incomplete:
                // A single line end may be the first half of a keep-alive, and already shows that the peer is alive.
                if rest[0] == UInt8(ascii: "\r") || rest[0] == UInt8(ascii: "\n") {
                    let flow = connected.flow
                    shard.onLoop { $0.flowAlive(flow) }
                }
                return used
            case .keepAlive(let length):
                // A double CRLF is answered with a single CRLF (RFC 5626 section 4.4.1).
                used += length
                if length == 4 { stream.send(Array("\r\n".utf8)) }
                let flow = connected.flow
                shard.onLoop { $0.flowAlive(flow) }
            case .message(let length):
                let message = rest.extracting(0..<length)
                used += length
                let flow = connected.flow
                let kind = shard.onLoop { [head] in $0.streamMessageReceived(message, head: head, on: flow) }
                switch kind {
                case .request: admission.asked(&connected.standing)
                case .other: break
                case .fatal: return giveUp(connected, used: bytes.count)
                }
            case .broken:
                // After a broken message, the beginning of the next message is unknown. The broken message is answered
                // if possible, and the connection is closed (T2).
                let flow = connected.flow
                shard.onLoop { _ = $0.streamMessageReceived(rest, on: flow) }
                return giveUp(connected, used: bytes.count)
            }
        }
        return used
    }

    /// Handles the messages of a WebSocket, each of which is one SIP message (RFC 7118 section 5.2.4) or a keep-alive.
    private func received(_ bytes: Span<UInt8>, by session: WebSocketSession, of connected: FlowConnection) -> Int {
        connected.isAlive = true
        var used = 0
        var left = Self.messagesInTurn
        while used < bytes.count {
            if connected.stream.isHeldUp { return used }
            guard left > 0 else {
                connected.stream.endTurn()
                return used
            }
            let taken = session.receive(bytes.extracting(used..<bytes.count))
            used += taken
            for message in session.takeMessages() {
                left -= 1
                received(message.span, of: connected)
            }
            connected.flush()
            if session.isOver || taken == 0 { return giveUp(connected, used: bytes.count) }
        }
        return used
    }

    private func received(_ message: Span<UInt8>, of connected: FlowConnection) {
        guard let shard, connections[connected.stream.id] != nil else { return }
        let flow = connected.flow
        var isKeepAlive = true
        for index in message.indices where message[index] != UInt8(ascii: "\r") && message[index] != UInt8(ascii: "\n")
        {
            isKeepAlive = false
            break
        }
        guard !isKeepAlive else {
            if message.count >= 4 { connected.send(Array("\r\n".utf8)) }
            return shard.onLoop { $0.flowAlive(flow) }
        }
        let kind = shard.onLoop { $0.streamMessageReceived(message, isCut: true, on: flow) }
        if case .request = kind { admission.asked(&connected.standing) }
    }

    /// Stops reading from the connection, and closes the connection when the answers are sent.
    private func giveUp(_ connected: FlowConnection, used: Int) -> Int {
        connected.stream.finish()
        return used
    }
}
