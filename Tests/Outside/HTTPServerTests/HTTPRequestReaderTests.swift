@testable import HTTPServer
import Testing

@Suite("HTTP request reader")
struct HTTPRequestReaderTests {
    /// Describes how the reader parses the bytes: each request as "METHOD target body", an error as its status.
    private static func read(_ text: String, slices: Int = .max, body: Int = 100) -> [String] {
        var reader = HTTPRequestReader(headLimit: 400, bodyLimit: body)
        var found: [String] = []
        let bytes = Array(text.utf8)
        var start = 0
        while start < bytes.count {
            let slice = Array(bytes[start..<min(bytes.count, start + min(slices, bytes.count))])
            start += slice.count
            var position = 0
            reading: while true {
                switch reader.next(in: slice.span, from: &position) {
                case .needsMore: break reading
                case .wantsContinue: found.append("continue")
                case .request(let head, let body):
                    found.append("\(head.method) \(head.target) \(String(decoding: body, as: UTF8.self))")
                case .fault(let fault): return found + ["\(fault.status)"]
                }
            }
        }
        return found
    }

    @Test(arguments: [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", ["GET / "]),
        ("GET / HTTP/1.0\r\n\r\n", ["GET / "]),
        ("\r\nGET /x?y HTTP/1.1\r\nHOST:a\r\nX-Empty:\r\nX: \u{e9}\t b \r\n\r\n", ["GET /x?y "]),
        (
            "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /q HTTP/1.1\r\nHost: a\r\n\r\n",
            ["POST /p abc", "GET /q "]
        ),
        ("DELETE /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", ["DELETE /p abc"]),
        (
            "PUT /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\n",
            ["PUT /p abc0123456789"]
        ),
        (
            "PUT /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            ["PUT /p ", "GET / "]
        ),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", ["OPTIONS * "]),
        ("GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n", ["GET http://a/b "]),
        ("GET http://[::1]:80/b HTTP/1.1\r\nHost: a\r\n\r\n", ["GET http://[::1]:80/b "]),
    ])
    func `well-formed requests are read, in slices of any size`(text: String, expected: [String]) {
        for size in [1, 2, 3, 7, Int.max] { #expect(Self.read(text, slices: size) == expected) }
    }

    @Test(arguments: [
        // HTTP requests with an ambiguous end, which the reader must refuse.
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\nabc", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nabc", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \u{b}chunked\r\n\r\n", 400),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        // HTTP requests with invalid line ends or header fields.
        ("GET / HTTP/1.1\nHost: a\n\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX y: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n", 400),
        // HTTP requests with an invalid request line, or not exactly one Host field.
        ("GARBAGE\r\n\r\n", 400), ("GET\r\n\r\n", 400), ("GET /\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET / x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("get / HTTP/1.1\r\nHost: a\r\n\r\n", 501), ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505), ("GET / HTTP/9.9.9\r\nHost: a\r\n\r\n", 400),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        // HTTP requests with invalid chunked bodies.
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: x\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFF\r\n", 413),
        // HTTP requests that exceed a limit of size.
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n", 413),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n", 413),
        (
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                + String(repeating: "1\r\na\r\n", count: 20), 413
        ),
        ("GET /" + String(repeating: "a", count: 400), 431),
        ("GET / HTTP/1.1\r\nHost: a\r\n" + String(repeating: "a:\r\n", count: 101), 431),
        ("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n", 417),
    ])
    func `ambiguous and oversized requests are refused`(text: String, status: Int) {
        for size in [1, 5, Int.max] { #expect(Self.read(text, slices: size) == ["\(status)"]) }
    }

    @Test func `a body of the limit is accepted, and one more byte is refused`() {
        let head = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"
        #expect(Self.read(head + "abc", body: 3) == ["PUT / abc"])
        #expect(Self.read(head + "abc", body: 2) == ["413"])
    }

    @Test func `a client that waits for 100 Continue gets it once, and not for a body that is too long`() {
        let head = "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: "
        #expect(Self.read(head + "3\r\n\r\nabc", slices: 1) == ["continue", "PUT / abc"])
        #expect(Self.read(head + "0\r\n\r\n") == ["PUT / "])
        #expect(Self.read(head + "101\r\n\r\n") == ["413"])
        let old = "PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na"
        #expect(Self.read(old, slices: 1) == ["PUT / a"])
    }

    @Test func `each part of a request has its time`() {
        var reader = HTTPRequestReader(headLimit: 400, bodyLimit: 100)
        var parts: [HTTPRequestReader.Part] = []
        for byte in "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab".utf8 {
            if parts.last != reader.part { parts.append(reader.part) }
            var position = 0
            _ = reader.next(in: [byte].span, from: &position)
        }
        parts.append(reader.part)
        #expect(parts == [.none, .head, .body, .none])
    }

    @Test(arguments: [
        ("HTTP/1.1", "", true), ("HTTP/1.1", "Connection: close\r\n", false),
        ("HTTP/1.1", "Connection: x , Close\r\n", false), ("HTTP/1.0", "", false),
        ("HTTP/1.0", "Connection: Keep-Alive\r\n", true),
    ])
    func `the connection stays open as each version requires`(version: String, field: String, stays: Bool) throws {
        var reader = HTTPRequestReader(headLimit: 400, bodyLimit: 100)
        var position = 0
        let text = "GET / \(version)\r\nHost: a\r\n\(field)\r\n"
        guard case .request(let head, _) = reader.next(in: Array(text.utf8).span, from: &position) else {
            Issue.record("no request")
            return
        }
        #expect(head.staysOpen == stays)
    }
}
