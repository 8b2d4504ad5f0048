import HTTPServices
import StoreTesting
import Testing

extension RunningDaemonSuites {
    /// Tests requests that are hidden in other requests, with a complete daemon (threat T14). The tests of the request
    /// reader have more cases of hidden requests.
    @Suite("Smuggled requests", .timeLimit(.minutes(10)))
    struct SmugglingTests {
        /// Makes a smuggled HTTP request, which changes something if the server reads it as a request of its own.
        private static func inner(_ key: String) -> String {
            "GET /v1/push-tokens/smuggled/S:1?token_msgs=T2sx&appid_msgs=a HTTP/1.1\r\nHost: a\r\n"
                + "Authorization: Bearer \(key)\r\n\r\n"
        }

        private struct Shape {
            let name: String
            /// The header fields after Host, each with its line end, followed by the body.
            var fields = ""
            var body = ""
            var first = "POST /v1/push-tokens HTTP/1.1\r\nHost: a\r\n"
            /// The statuses that the server may answer. The server must answer with exactly one of the listed statuses.
            var statuses = [400]
        }

        /// The requests to send. In the requests, `{}` means the inner request, `{n}` its length, and `{x}` its length
        /// in hexadecimal digits.
        private static let shapes = [
            Shape(
                name: "CL.TE", fields: "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", body: "0\r\n\r\n{}"),
            Shape(
                name: "TE.CL", fields: "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                body: "{x}\r\n{}\r\n0\r\n\r\n"),
            Shape(name: "CL 0 with TE", fields: "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", body: "{}"),
            Shape(name: "two lengths", fields: "Content-Length: 0\r\nContent-Length: {n}\r\n", body: "{}"),
            Shape(name: "two equal lengths", fields: "Content-Length: {n}\r\nContent-Length: {n}\r\n", body: "{}"),
            Shape(name: "a list of lengths", fields: "Content-Length: 0, {n}\r\n", body: "{}"),
            Shape(name: "length with a sign", fields: "Content-Length: +0\r\n", body: "{}"),
            Shape(name: "negative length", fields: "Content-Length: -1\r\n", body: "{}"),
            Shape(name: "length in hexadecimal", fields: "Content-Length: 0x0\r\n", body: "{}"),
            Shape(name: "length with a letter", fields: "Content-Length: 0a\r\n", body: "{}"),
            Shape(name: "length with a fraction", fields: "Content-Length: 0.0\r\n", body: "{}"),
            Shape(name: "length in Arabic digits", fields: "Content-Length: ٠\r\n", body: "{}"),
            Shape(name: "empty length", fields: "Content-Length:\r\n", body: "{}"),
            Shape(
                name: "length beyond 64 bits", fields: "Content-Length: 18446744073709551616\r\n", body: "{}",
                statuses: [413]),
            Shape(name: "space before the colon", fields: "Content-Length : 0\r\n", body: "{}"),
            Shape(name: "tab before the colon", fields: "Content-Length\t: 0\r\n", body: "{}"),
            Shape(name: "length on a folded line", fields: "X: y\r\n Content-Length: 0\r\n", body: "{}"),
            Shape(name: "folded length", fields: "Content-Length:\r\n 0\r\n", body: "{}"),
            Shape(name: "NUL in a name", fields: "Content-Length\0: 0\r\n", body: "{}"),
            Shape(name: "encoding twice", fields: "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
            Shape(
                name: "a list of encodings", fields: "Transfer-Encoding: identity, chunked\r\n", body: "0\r\n\r\n{}",
                statuses: [501]),
            Shape(
                name: "unknown encoding", fields: "Transfer-Encoding: xchunked\r\n", body: "0\r\n\r\n{}",
                statuses: [501]),
            Shape(
                name: "encoding in quotes", fields: "Transfer-Encoding: \"chunked\"\r\n", body: "0\r\n\r\n{}",
                statuses: [501]),
            Shape(
                name: "encoding behind a vertical tab", fields: "Transfer-Encoding: \u{b}chunked\r\n",
                body: "0\r\n\r\n{}"),
            Shape(name: "encoding behind a line feed", fields: "X: y\nTransfer-Encoding: chunked\r\n", body: "{}"),
            Shape(name: "encoding behind a carriage return", fields: "X: y\rTransfer-Encoding: chunked\r\n"),
            Shape(name: "encoding with a space in its name", fields: "Transfer Encoding: chunked\r\n"),
            Shape(
                name: "encoding in HTTP/1.0", fields: "Transfer-Encoding: chunked\r\n", body: "0\r\n\r\n{}",
                first: "POST /v1/push-tokens HTTP/1.0\r\nHost: a\r\n"),
            Shape(
                name: "chunk with an extension", fields: "Transfer-Encoding: chunked\r\n",
                body: "0;a=\"\r\n\r\n{}"),
            Shape(
                name: "chunk of a bare line feed", fields: "Transfer-Encoding: chunked\r\n", body: "0\n\n{}"),
            Shape(
                name: "chunk size with a sign", fields: "Transfer-Encoding: chunked\r\n", body: "+0\r\n\r\n{}"),
            Shape(
                name: "chunk size with a prefix", fields: "Transfer-Encoding: chunked\r\n", body: "0x0\r\n\r\n{}"),
            Shape(
                name: "chunk size with a space", fields: "Transfer-Encoding: chunked\r\n", body: "0 \r\n\r\n{}"),
            Shape(
                name: "chunk size beyond 64 bits", fields: "Transfer-Encoding: chunked\r\n",
                body: "10000000000000000\r\n{}", statuses: [413]),
            Shape(
                name: "chunk shorter than its size", fields: "Transfer-Encoding: chunked\r\n", body: "1\r\nab\r\n{}"),
            Shape(
                name: "fields behind the last chunk", fields: "Transfer-Encoding: chunked\r\n",
                body: "0\r\nContent-Length: {n}\r\n\r\n{}"),
            Shape(name: "two hosts", first: "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n"),
            Shape(name: "no host", first: "GET /healthz HTTP/1.1\r\n"),
            Shape(name: "bare line feeds", first: "GET /healthz HTTP/1.1\nHost: a\n"),
            Shape(name: "a request line with two targets", first: "GET /healthz /v1 HTTP/1.1\r\nHost: a\r\n"),
            Shape(
                name: "a carriage return in the target",
                first: "GET /healthz\rHTTP/1.1 HTTP/1.1\r\nHost: a\r\n"),
            Shape(name: "a version that is none", first: "GET /healthz HTTP/1.1x\r\nHost: a\r\n"),
            Shape(name: "HTTP/2's preface", first: "PRI * HTTP/2.0\r\n", statuses: [400, 501, 505]),
            Shape(name: "a tunnel", first: "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n", statuses: [501]),
        ]

        @Test func `there are enough of them`() { #expect(Self.shapes.count >= 25) }

        @Test func `each is answered once, the connection ends, and nothing inside is served`() async throws {
            let folder = try StoreFolder()
            let daemon = try await RunningDaemon.start(folder, RunningDaemon.forHostileInput)
            let before = try await daemon.content(folder)
            let inner = Self.inner(daemon.key.text)
            let requests = Self.shapes.map { shape in
                let body = shape.body.replacing("{}", with: inner)
                    .replacing("{x}", with: String(inner.utf8.count, radix: 16))
                let fields = shape.fields.replacing("{n}", with: "\(inner.utf8.count)")
                // If the server reads no body, the inner request follows the head directly.
                return Array((shape.first + fields + "\r\n" + body + (body.isEmpty ? inner : "")).utf8)
            }
            for (shape, answer) in zip(Self.shapes, try await daemon.answers(requests)) {
                let statuses = RunningDaemon.statuses(answer)
                #expect(
                    statuses.count == 1 && shape.statuses.contains(statuses.first ?? 0), "\(shape.name): \(statuses)")
                #expect(answer.contains("\r\nConnection: close\r\n"), "\(shape.name)")
                #expect(!RunningDaemon.leaks(answer), "\(shape.name)")
            }
            let after = try await daemon.content(folder)
            #expect(after == before)
            try await daemon.expectAlive()
            // The inner request is valid by itself: the server answers it if it arrives alone.
            let status = RunningDaemon.statuses(
                try await daemon.answer(inner.replacing("Host: a", with: "Host: a\r\nConnection: close")))
            #expect(status == [200])
            let changed = try await daemon.content(folder)
            #expect(changed != before)
            try await daemon.stop()
        }
    }
}
