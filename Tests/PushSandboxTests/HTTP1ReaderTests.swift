import PushSandbox
import Testing

@Suite("HTTP/1.1 reader")
struct HTTP1ReaderTests {
    private func reader(_ text: String) throws -> HTTP1Reader {
        var reader = HTTP1Reader()
        try reader.append(Array(text.utf8).span)
        return reader
    }

    private func status(_ text: String) -> Int? {
        do {
            var reader = try reader(text)
            _ = try reader.next()
            return nil
        } catch let fault as HTTP1Reader.Fault {
            return fault.status
        } catch {
            return -1
        }
    }

    @Test func `requests behind each other come one by one, however they are cut`() throws {
        let text = "POST /a?b=c HTTP/1.1\r\nHost: x\r\ncontent-Length:  3 \r\n\r\nabc\r\nGET /d HTTP/1.0\r\n\r\n"
        var reader = HTTP1Reader()
        var requests: [HTTP1Reader.Request] = []
        for byte in text.utf8 {
            try reader.append([byte].span)
            while let request = try reader.next() { requests.append(request) }
        }
        #expect(requests.map(\.target) == ["/a?b=c", "/d"])
        #expect(requests.map(\.method) == ["POST", "GET"])
        #expect(requests.map(\.body) == [Array("abc".utf8), []])
        #expect(requests.map(\.staysOpen) == [true, false])
        #expect(requests[0].headers == ["host": "x", "content-length": "3"])
    }

    @Test(arguments: [("close", false), ("keep-alive", true), ("Close", false)])
    func `a client says whether it goes on`(value: String, staysOpen: Bool) throws {
        var reader = try reader("GET / HTTP/1.1\r\nConnection: \(value)\r\n\r\n")
        let request = try #require(try reader.next())
        #expect(request.staysOpen == staysOpen)
    }

    @Test(arguments: [
        ("nonsense\r\n\r\n", 400), ("GET x HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/2.0\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400), ("GET / HTTP/1.1\r\nbad name: 1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", 413),
        ("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        ("GET / HTTP/1.1\r\nx: " + String(repeating: "y", count: 17000), 431),
    ])
    func `what cannot be read has a status`(text: String, expected: Int) {
        #expect(status(text) == expected)
    }

    @Test func `a repeated header is known as such`() throws {
        var reader = try reader("GET / HTTP/1.1\r\na: 1\r\nA: 2\r\n\r\n")
        let request = try #require(try reader.next())
        #expect(request.headers == ["a": "1"] && request.repeatedHeaders == ["a"])
    }

    @Test func `bytes without an end have a limit`() throws {
        var reader = HTTP1Reader()
        #expect(throws: HTTP1Reader.Fault.self) {
            for _ in 0..<400 { try reader.append([UInt8](repeating: 65, count: 1000).span) }
        }
    }
}
