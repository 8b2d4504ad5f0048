import HTTP2
import Testing

/// An HTTP/2 client and server without a network between them. The test moves all bytes between client and server
/// itself.
private final class Pair {
    let client: HTTP2Client
    let server: HTTP2Server
    /// The client's output that the test has not passed to the server yet.
    var onTheWay: [UInt8] = []

    init(streams: Int = 100) throws {
        client = try #require(HTTP2Client())
        var limits = HTTP2Server.Limits()
        limits.streams = streams
        server = try #require(HTTP2Server(limits: limits))
    }

    func toServer() {
        client.takeOutput { span in for index in span.indices { onTheWay.append(span[index]) } }
        _ = server.received(onTheWay.span)
        onTheWay = []
    }

    @discardableResult
    func toClient() -> Bool { client.received(server.takeOutput().span) }

    /// Exchanges the SETTINGS frames of client and server.
    func greet() {
        toServer()
        toClient()
        toServer()
        toClient()
    }

    @discardableResult
    func start(
        _ path: String = "/", body: String = "", limit: Int = 1000, fields: [(String, String, Bool)] = []
    ) -> Int? {
        var head = HeaderBlock()
        head.append(":method", "POST")
        head.append(":scheme", "https")
        head.append(":authority", "example.invalid")
        head.append(":path", path)
        for (name, value, isRepeated) in fields { head.append(name, value, isRepeated: isRepeated) }
        return client.start(&head, body: Array(body.utf8), answerLimit: limit)
    }

    func finished() -> [HTTP2Client.Finished] {
        var list: [HTTP2Client.Finished] = []
        client.takeFinished(into: &list)
        return list
    }

    /// Discards the client's output, and returns the number of discarded bytes.
    func outputCount() -> Int {
        defer { client.takeOutput { _ in } }
        return client.outputCount
    }
}

extension HTTP2Client.Outcome {
    /// The event as text: its kind, and the HTTP status if there is one.
    fileprivate var text: String {
        switch self {
        case .answered(let response): "answered \(response.status)"
        case .refused: "refused"
        case .reset(let code): "reset \(code)"
        case .malformed(let code): "malformed \(code)"
        case .bodyTooLarge: "body too large"
        case .unsendable: "unsendable"
        }
    }
}

@Suite("HTTP/2 client machine")
struct HTTP2ClientTests {
    @Test func `one request before the server's settings, then as many as these allow`() throws {
        let pair = try Pair(streams: 3)
        #expect(pair.start() != nil)
        #expect(pair.start() == nil)
        pair.greet()
        #expect(pair.client.streamLimit == 3)
        #expect(pair.start() != nil)
        #expect(pair.start() != nil)
        #expect(!pair.client.hasRoom)
        #expect(pair.start() == nil)
        pair.server.allow(streams: 4)
        pair.toClient()
        #expect(pair.start() != nil)
        #expect(pair.client.openCount == 4)
    }

    @Test func `an answer carries status, fields, body and the time of its first byte`() throws {
        let pair = try Pair()
        pair.greet()
        let stream = pair.start("/a", body: "hello", fields: [("X-Name", "v", true)])
        pair.toServer()
        let request = try #require(pair.server.takeRequests().first)
        #expect(request.path == "/a")
        #expect(request.authority == "example.invalid")
        #expect(request.body == Array("hello".utf8))
        #expect(request.fields.map(\.name) == ["x-name"])
        pair.server.hint(request.stream, status: 103, fields: [("link", "x")])
        pair.toClient()
        pair.server.answer(request.stream, status: 404, fields: [("a", "1"), ("b", "")], body: Array("no".utf8))
        pair.toClient()
        let end = try #require(pair.finished().first)
        #expect(end.stream == stream)
        guard case .answered(let response) = end.outcome else { return #expect(Bool(false)) }
        #expect(response.status == 404)
        #expect(response.head == Array("a: 1\nb: \n".utf8))
        #expect(response.body == Array("no".utf8))
        #expect(pair.client.openCount == 0)
    }

    @Test func `each kind of end has its error`() throws {
        let pair = try Pair()
        pair.greet()
        for _ in 0..<4 { pair.start(limit: 3) }
        pair.toServer()
        let numbers = pair.server.takeRequests().map(\.stream)
        pair.server.reset(numbers[0], .refusedStream)
        pair.server.reset(numbers[1], .cancel)
        pair.server.answer(numbers[2], status: 200, body: Array("four".utf8))
        pair.server.answer(numbers[3], status: 200, fields: [("content-length", "9")], body: Array("one".utf8))
        pair.toClient()
        #expect(
            Set(pair.finished().map(\.outcome.text)) == [
                "refused", "reset CANCEL", "body too large", "malformed PROTOCOL_ERROR",
            ])
        #expect(pair.client.acceptsRequests)
    }

    @Test func `a GOAWAY refuses the streams behind its last, and the connection ends with the others`() throws {
        let pair = try Pair()
        pair.greet()
        for _ in 0..<3 { pair.start() }
        pair.toServer()
        let numbers = pair.server.takeRequests().map(\.stream)
        let enhanceYourCalm = HTTP2ErrorCode(rawValue: 11)
        pair.server.goAway(lastStream: numbers[0], enhanceYourCalm, reason: "{\"reason\":\"x\u{1}\"}")
        #expect(pair.toClient())
        #expect(pair.finished().map(\.outcome.text) == ["refused", "refused"])
        #expect(pair.client.goAway?.code == enhanceYourCalm)
        #expect(pair.client.goAway?.reason == "{\"reason\":\"x?\"}")
        #expect(!pair.client.acceptsRequests)
        #expect(pair.start() == nil)
        pair.server.answer(numbers[0], status: 200)
        #expect(!pair.toClient())
        #expect(pair.finished().map(\.outcome.text) == ["answered 200"])
    }

    @Test func `an early answer ends the sending of the body`() throws {
        let pair = try Pair()
        pair.greet()
        pair.start(body: String(repeating: "x", count: 1 << 20))
        pair.toServer()
        pair.server.answer(1, status: 413)
        pair.toClient()
        #expect(pair.finished().map(\.outcome.text) == ["answered 413"])
        #expect(pair.client.openCount == 0)
        pair.toServer()
        #expect(pair.server.takeRequests().isEmpty)
    }

    @Test func `a cancelled request is not heard of any more, and its place is free`() throws {
        let pair = try Pair(streams: 1)
        pair.greet()
        let stream = try #require(pair.start())
        pair.toServer()
        pair.client.cancel(stream)
        pair.client.cancel(stream)
        #expect(pair.client.hasRoom)
        pair.server.answer(1, status: 200)
        pair.toClient()
        #expect(pair.finished().isEmpty)
        #expect(pair.start() == stream)
    }

    @Test func `it is known which requests have begun to leave`() throws {
        let pair = try Pair()
        pair.greet()
        let before = pair.outputCount()
        #expect(before == 0)
        let first = try #require(pair.start("/first"))
        let firstCount = pair.client.outputCount
        #expect(!pair.client.wasWritten(first, unsentCount: 0))
        let second = try #require(pair.start("/second"))
        let count = pair.outputCount()
        #expect(pair.client.wasWritten(first, unsentCount: 0))
        #expect(pair.client.wasWritten(second, unsentCount: 0))
        #expect(pair.client.wasWritten(first, unsentCount: count - 1))
        #expect(!pair.client.wasWritten(first, unsentCount: count))
        #expect(!pair.client.wasWritten(second, unsentCount: count - firstCount))
        #expect(pair.client.wasWritten(second, unsentCount: count - firstCount - 1))
    }

    @Test func `a request that a broken connection does not accept does not count as sent`() throws {
        let pair = try Pair()
        pair.greet()
        pair.start()
        pair.toServer()
        // The test sends a DATA frame on stream 0, and so violates the rules of the connection.
        let goesOn = pair.client.received([0, 0, 0, 0, 0, 0, 0, 0, 0].span)
        #expect(!goesOn)
        let late = try #require(pair.start())
        #expect(!pair.client.wasWritten(late, unsentCount: 0))
        #expect(pair.finished().map(\.outcome.text) == ["refused"])
    }

    @Test func `reused memory contains its initial values again`() throws {
        let pair = try Pair()
        pair.greet()
        var head = HeaderBlock()
        for (name, value) in [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "")] {
            head.append(name, value)
        }
        head.append("Kind", "usual")
        let mark = head.mark
        for (path, kind) in [("/1", "a longer one"), ("/2", nil), ("/3", "x")] {
            head.removeRest(behind: mark)
            head.setValue(at: 3, to: path.utf8.span)
            if let kind { head.setValue(at: 4, to: kind.utf8.span) }
            head.append("last", path)
            #expect(pair.client.start(&head, body: [], answerLimit: 0) != nil)
        }
        pair.toServer()
        let requests = pair.server.takeRequests()
        #expect(requests.map(\.path) == ["/1", "/2", "/3"])
        for (request, kind) in zip(requests, ["a longer one", "usual", "x"]) {
            #expect(request.fields.map(\.value) == [kind, request.path])
        }
    }

    @Test func `repeated fields take one or two bytes, and unique fields displace nothing`() throws {
        let pair = try Pair(streams: 1000)
        pair.greet()
        var counts: [Int] = []
        for number in 0..<200 {
            pair.start(
                "/3/device/\(1000 + number)",
                fields: [
                    ("apns-topic", "org.example.phone.voip", true), ("apns-push-type", "voip", true),
                    ("apns-id", "00000000-0000-0000-0000-\(100_000_000_000 + number)", false),
                ])
            counts.append(pair.outputCount())
        }
        // All header blocks after the first have about the same length, because repeated fields are in the compression
        // table.
        let later = counts.dropFirst()
        #expect(counts[0] > (later.max() ?? 0) + 20)
        #expect((later.max() ?? 0) - (later.min() ?? 0) <= 6)
    }

    @Test func `a PING is answered`() throws {
        let pair = try Pair()
        pair.greet()
        pair.client.ping()
        pair.toServer()
        #expect(pair.client.pongCount == 0)
        pair.toClient()
        #expect(pair.client.pongCount == 1)
    }

    @Test func `bytes that are not HTTP/2 end the connection`() throws {
        let client = try #require(HTTP2Client())
        let goesOn = client.received(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8).span)
        #expect(!goesOn)
        #expect(!client.hasSettings)
        #expect(!client.isWanted)
    }

    @Test func `a request with a head beyond all bounds fails alone`() throws {
        let pair = try Pair()
        pair.greet()
        pair.start(fields: [("x", String(repeating: "x", count: 70_000), true)])
        #expect(pair.finished().map(\.outcome.text) == ["unsendable"])
        pair.start()
        pair.toServer()
        #expect(pair.server.takeRequests().count == 1)
    }
}
