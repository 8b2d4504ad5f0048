/// Writes and reads WebSocket frames as a browser does (RFC 6455), but only whole text messages, as SIP needs them.
package struct WebSocketFrames {
    /// Received bytes of an incomplete WebSocket message.
    private var rest: [UInt8] = []
    /// Whether the server's answer to the handshake has arrived.
    private var isOpen = false

    package init() {}

    /// Makes the handshake request with which a browser begins.
    package static func handshake(host: String) -> [UInt8] {
        Array(
            ("GET / HTTP/1.1\r\nHost: \(host)\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                + "Sec-WebSocket-Protocol: sip\r\n\r\n").utf8)
    }

    /// Puts a text message into one frame, masked with zeros so that its bytes stay unchanged.
    package static func frame(_ message: [UInt8]) -> [UInt8] {
        let long = [UInt8(message.count >> 8 & 0xff), UInt8(message.count & 0xff)]
        let length = message.count < 126 ? [0x80 | UInt8(message.count)] : [0x80 | 126] + long
        return [0x81] + length + [0, 0, 0, 0] + message
    }

    /// Takes received bytes, and returns the head of the HTTP answer, and later complete messages.
    package mutating func messages(in bytes: [UInt8]) -> [[UInt8]] {
        rest += bytes
        var messages: [[UInt8]] = []
        while let message = isOpen ? takeFrame() : takeHead() { messages.append(message) }
        return messages
    }

    private mutating func takeHead() -> [UInt8]? {
        guard let end = rest.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        isOpen = true
        return take(rest.startIndex, end.upperBound)
    }

    private mutating func takeFrame() -> [UInt8]? {
        guard rest.count >= 2 else { return nil }
        guard rest[1] == 126 else { return take(2, 2 + Int(rest[1])) }
        guard rest.count >= 4 else { return nil }
        return take(4, 4 + Int(rest[2]) << 8 + Int(rest[3]))
    }

    private mutating func take(_ start: Int, _ end: Int) -> [UInt8]? {
        guard rest.count >= end else { return nil }
        let taken = Array(rest[start..<end])
        rest.removeFirst(end)
        return taken
    }
}
