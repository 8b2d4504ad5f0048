import Testing
import WebSocket

@Suite("A WebSocket session")
struct WebSocketSessionTests {
    /// Makes a WebSocket frame as a client would send it.
    private func frame(
        _ payload: [UInt8], _ opcode: UInt8 = 1, isFinal: Bool = true, isMasked: Bool = true, reserved: UInt8 = 0
    ) -> [UInt8] {
        var bytes: [UInt8] = [(isFinal ? 0x80 : 0) | reserved << 4 | opcode]
        let mark: UInt8 = isMasked ? 0x80 : 0
        if payload.count < 126 {
            bytes.append(mark | UInt8(payload.count))
        } else {
            bytes += [mark | 126, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
        }
        let mask: [UInt8] = [1, 2, 3, 4]
        if isMasked { bytes += mask }
        return bytes + payload.enumerated().map { isMasked ? $1 ^ mask[$0 % 4] : $1 }
    }

    /// Passes all bytes to the session, at most `pieces` bytes at a time, and returns the complete messages.
    private func feed(_ session: WebSocketSession, _ bytes: [UInt8], pieces: Int = .max) -> [[UInt8]] {
        var messages: [[UInt8]] = []
        var place = 0
        while place < bytes.count {
            let end = min(bytes.count, place + min(pieces, bytes.count))
            let taken = session.receive(bytes.span.extracting(place..<end))
            messages += session.takeMessages()
            if taken == 0 { break }
            place += taken
        }
        return messages
    }

    /// Returns the code of the close frame that the session sends after receiving `bytes`; 0 if the frame has no code.
    private func closeCode(after bytes: [UInt8], limit: Int = 1000) -> UInt16? {
        guard let session = WebSocketSession(messageLimit: limit) else { return nil }
        let messages = feed(session, bytes)
        let output = session.takeOutput()
        guard messages.isEmpty, session.isOver, output.count >= 2, output[0] == 0x88 else { return nil }
        return output.count < 4 ? 0 : UInt16(output[2]) << 8 | UInt16(output[3])
    }

    @Test(arguments: [1, 2, 3, 7, .max])
    func `messages are complete, in frames and slices of any size`(pieces: Int) throws {
        let session = try #require(WebSocketSession(messageLimit: 1000))
        let long = [UInt8](repeating: 120, count: 900)
        let bytes =
            frame(Array("one".utf8)) + frame(Array("tw".utf8), isFinal: false) + frame([1, 2], 9)
            + frame(Array("o".utf8), 0) + frame(long, 2)
        #expect(feed(session, bytes, pieces: pieces) == [Array("one".utf8), Array("two".utf8), long])
        // The session answers a ping that arrives between two fragments.
        #expect(session.takeOutput() == [0x8a, 2, 1, 2])
        #expect(!session.isOver)
    }

    @Test func `the length of a message is that of all its frames, and pings between them do not count`() throws {
        let session = try #require(WebSocketSession(messageLimit: 100))
        var bytes = frame([120], isFinal: false)
        for _ in 0..<98 { bytes += frame([120], 0, isFinal: false) + frame([UInt8](repeating: 1, count: 100), 9) }
        bytes += frame([], 0, isFinal: false) + frame([120], 0)
        #expect(feed(session, bytes) == [[UInt8](repeating: 120, count: 100)])
        #expect(!session.isOver)
        // After a message of the maximum length, the session accepts another message.
        #expect(feed(session, frame([121])) == [[121]])

        var one = frame([120], isFinal: false)
        for _ in 0..<100 { one += frame([120], 0, isFinal: false) }
        #expect(closeCode(after: one, limit: 100) == 1009)
        #expect(closeCode(after: frame([UInt8](repeating: 120, count: 101)), limit: 100) == 1009)
        #expect(closeCode(after: frame([120]), limit: 0) == 1009)
    }

    @Test func `a message that turns out to be no text is not handed over`() {
        #expect(closeCode(after: frame([120], isFinal: false) + frame([0xff], 0)) == 1007)
        #expect(closeCode(after: frame([0xc3], isFinal: false) + frame([], 0)) == 1007)
    }

    @Test func `a frame that breaks the rules ends the session with the code of RFC 6455`() {
        #expect(closeCode(after: frame([120], isMasked: false)) == 1002)
        #expect(closeCode(after: frame([120], reserved: 4)) == 1002)
        #expect(closeCode(after: frame([120], 3)) == 1002)
        #expect(closeCode(after: frame([120], 0)) == 1002)
        #expect(closeCode(after: frame([UInt8](repeating: 1, count: 126), 9)) == 0)
        #expect(closeCode(after: frame([120], 9, isFinal: false)) == 0)
        #expect(closeCode(after: frame([120], isFinal: false) + frame([120])) == 1002)
        #expect(closeCode(after: frame([0xff, 0xfe])) == 1007)
        #expect(closeCode(after: frame([UInt8](repeating: 120, count: 1001))) == 1009)
        let piece = [UInt8](repeating: 120, count: 600)
        #expect(closeCode(after: frame(piece, isFinal: false) + frame(piece, 0, isFinal: false)) == 1009)
    }

    @Test func `UTF-8 text is sent as a text message, and all other bytes as a binary message`() throws {
        let session = try #require(WebSocketSession(messageLimit: 1000))
        session.send(Array("OK é".utf8))
        #expect(session.takeOutput() == [0x81, 5] + Array("OK é".utf8))
        session.send([0xff, 120])
        #expect(session.takeOutput() == [0x82, 2, 0xff, 120])
        session.ping()
        #expect(session.takeOutput() == [0x89, 0])
    }

    @Test func `after a close nothing is accepted and nothing is sent`() throws {
        let session = try #require(WebSocketSession(messageLimit: 1000))
        #expect(feed(session, frame([3, 0xe8], 8) + frame([120])) == [])
        #expect(session.isOver)
        #expect(session.takeOutput() == [0x88, 2, 3, 0xe8])
        session.send([120])
        #expect(session.takeOutput() == [])

        let other = try #require(WebSocketSession(messageLimit: 1000))
        other.close(.policyViolation)
        #expect(other.takeOutput() == [0x88, 2, 3, 0xf0])
        #expect(feed(other, frame([120])) == [])
    }
}
