import Bytes
import SIPGrammar
import SIPMessage
import TestSupport
import Testing

@Suite("Cutting streams into messages")
struct StreamFramerTests {
    /// Returns the frames of a stream whose bytes arrive in pieces of the given sizes.
    private func frames(_ bytes: [UInt8], pieces: () -> Int) -> [String] {
        var framer = StreamFramer()
        var waiting: [UInt8] = []
        var found: [String] = []
        var sent = 0
        while true {
            var head: MessageHead?
            switch framer.next(in: waiting.span, head: &head) {
            case .incomplete:
                guard sent < bytes.count else {
                    return found + (waiting.isEmpty ? [] : ["rest \(waiting.count)"])
                }
                let size = min(pieces(), bytes.count - sent)
                waiting += bytes[sent..<sent + size]
                sent += size
            case .keepAlive(let count):
                found.append("keep-alive \(count)")
                waiting.removeFirst(count)
            case .message(let count):
                found.append(waiting[..<count].map { $0 }.text)
                waiting.removeFirst(count)
            case .broken: return found + ["broken"]
            }
        }
    }

    private func whole(_ bytes: [UInt8]) -> [String] { frames(bytes) { bytes.count } }

    private static let message = Draft.with(body: "\r\n\r\nSIP/2.", length: "10").bytes

    @Test func `messages and keep-alives are returned one by one`() {
        let text = Self.message.text
        #expect(whole(Self.message + Self.message) == [text, text])
        let mixed = wire("\n\n") + Self.message + wire("\n") + Self.message
        #expect(whole(mixed) == ["keep-alive 4", text, "keep-alive 2", text])
        #expect(whole(wire("\n\n\n\n\n") + Self.message) == ["keep-alive 4", "keep-alive 4", "keep-alive 2", text])
    }

    @Test func `a CRLF alone waits for the next bytes`() {
        #expect(whole(wire("\n")) == ["rest 2"])
        #expect(frames(wire("\n\n")) { 1 } == ["keep-alive 4"])
    }

    @Test(arguments: [
        "", "Content-Length: -1", "Content-Length: +1", "Content-Length: 0x1", "Content-Length: 1 1",
        "Content-Length:", "Content-Length: 1\nContent-Length: 2", "Content-Length: 1\nl: 1",
        "Content-Length: 65537", "Content-Length 1", "Content-Length: 99999999999999999999", "Content-Length: 1,1",
        "X-Content-Length: 1", "ll: 1",
    ])
    func `a length that cannot be trusted breaks the stream`(row: String) {
        let bytes = Draft().changed { $0.length = row.isEmpty ? nil : row }.bytes
        #expect(whole(bytes + Self.message) == ["broken"])
    }

    @Test(arguments: [
        "content-length:10", "l: 10", "L :\t10", "Content-Length:\n 10", "Content-Length: 10\n ",
        "CONTENT-LENGTH: 0010",
    ])
    func `a length may be spelled in many ways`(row: String) {
        let bytes = Draft().changed {
            $0.length = row
            $0.body = "0123456789"
        }.bytes
        #expect(whole(bytes + Self.message) == [bytes.text, Self.message.text])
    }

    @Test func `a head may be 16 KiB long`() {
        let empty = Draft.with("X: ").bytes.count
        let found = [-1, 0, 1].map { extra in
            whole(Draft.with("X: " + String(repeating: "x", count: 16_384 + extra - empty)).bytes).last == "broken"
        }
        #expect(found == [false, false, true])
        #expect(whole(Array(repeating: UInt8(ascii: "x"), count: 16_383)) == ["rest 16383"])
        #expect(whole(Array(repeating: UInt8(ascii: "x"), count: 16_384)) == ["broken"])
    }

    @Test func `a head of more rows than are read is cut at its end`() {
        let more = String(repeating: "X: 1\r\n", count: 200)
        let long = Self.message.text.replacing(/Content-Length: 10\r\n/, maxReplacements: 1) { $0.0 + more }
        #expect(long.utf8.count == Self.message.count + more.utf8.count)
        #expect(whole(Array(long.utf8) + Self.message) == [long, Self.message.text])
    }

    @Test func `the message that broke a stream can still be answered`() throws {
        let bytes = Draft().changed { $0.length = "Content-Length: -5" }.bytes
        #expect(try unusable(bytes, isStream: true).answer?.status == .badRequest)
    }

    @Test(arguments: 0..<40 as Range<UInt64>)
    func `pieces make no difference`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var stream: [UInt8] = []
        for _ in 0..<20 {
            switch random.next() % 6 {
            case 0: stream += wire("\n")
            case 1: stream += wire("\n\n")
            case 2: stream += Draft().bytes
            case 3 where seed % 4 == 0: stream += Draft().changed { $0.length = nil }.bytes
            default: stream += Self.message
            }
        }
        let expected = whole(stream)
        #expect(frames(stream) { Int(random.next() % 7) + 1 } == expected)
        #expect(frames(stream) { Int(random.next() % 400) + 1 } == expected)
    }

    @Test func `framer and reader agree on where each torture message ends`() {
        for torture in TortureMessage.all {
            var framer = StreamFramer()
            var head: MessageHead?
            let frame = framer.next(in: torture.bytes.span, head: &head)
            if case .message(let count) = frame {
                let message = torture.bytes.span.extracting(first: count)
                let (once, again) = (
                    MessageReader().read(message, isStream: true, head: head),
                    MessageReader().read(message, isStream: true)
                )
                #expect(head != nil && "\(once)" == "\(again)", "\(torture.name)")
            }
            switch (frame, read(torture.bytes, isStream: true)) {
            case (.message(let count), .request(let request)): #expect(request.frame.bytes.count == count)
            case (.message(let count), .response(let response)):
                #expect(response.frame.bytes.count == count)
            case (.message, .unusable), (.broken, .unusable), (.incomplete, .unusable): break
            case (let frame, let read): Issue.record("\(torture.name): \(frame), \(read)")
            }
        }
    }
}
