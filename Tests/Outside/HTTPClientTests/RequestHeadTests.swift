import HTTP2
import HTTP2Connections
import HTTPClient
import HTTPSemantics
import Testing

@Suite("Heads of HTTP/2 requests")
struct RequestHeadTests {
    /// Returns the header fields that a server reads when the requests are sent one after the other.
    private func received(_ requests: [HTTPClientRequest]) throws -> [[String]] {
        let client = try #require(HTTP2Client())
        let server = try #require(HTTP2Server())
        var head = RequestHead(to: try #require(RequestTarget("https://push.example:8443")))
        var onTheWay: [UInt8] = []
        func exchange() {
            client.takeOutput { span in for index in span.indices { onTheWay.append(span[index]) } }
            _ = server.received(onTheWay.span)
            onTheWay = []
            _ = client.received(server.takeOutput().span)
        }
        for _ in 1...2 { exchange() }
        for request in requests {
            head.write(request)
            _ = try #require(client.start(&head.block, body: request.body, answerLimit: 0))
            exchange()
        }
        return server.takeRequests().map { request in
            [request.method, request.scheme, request.authority, request.path]
                + request.fields.map { "\($0.name): \($0.value)" }
        }
    }

    private func request(
        _ path: String, _ headers: KeyValuePairs<String, String>, method: String = "POST", body: String = "{}"
    ) -> HTTPClientRequest {
        HTTPClientRequest(
            method: method, url: "https://push.example:8443" + path,
            headers: headers.map { HTTPField($0.key, $0.value) }, body: Array(body.utf8))
    }

    @Test func `each head depends only on its own request`() throws {
        let requests = [
            request("/a", ["Topic": "t", "apns-id": "1", "authorization": "bearer x"]),
            request("/a/longer", ["Topic": "t", "apns-id": "a longer one", "authorization": "bearer x"]),
            request("", ["Topic": "t", "apns-id": "1", "authorization": "bearer x"]),
            request("/b", ["Topic": "", "apns-id": "2", "authorization": "bearer renewed"], body: "longer"),
            request("/c", ["Topic": "t", "authorization": "bearer x", "apns-id": "1"]),
            request("/d", ["Topic": "t", "Connection": "close", "apns-id": "1"]),
            request("/e", ["Topic": "u", "Connection": "open", "apns-id": "3"]),
            request("/f", ["Host": "one.example"]), request("/g", ["Host": "other.example"]), request("/h", [:]),
            request("/i", ["Content-Length": "2"]), request("/j", ["Topic": "t"]),
            request("/k", ["Topic": "t"], method: "GET", body: ""),
            request("/l", ["Topic": "t"], method: "GET", body: ""),
        ]
        let all = try received(requests)
        #expect(all.count == requests.count)
        for (request, text) in zip(requests, all) { #expect(try received([request]) == [text]) }
        #expect(
            all[1] == [
                "POST", "https", "push.example:8443", "/a/longer", "topic: t", "apns-id: a longer one",
                "authorization: bearer x", "content-length: 2",
            ])
        #expect(all[2][3] == "/")
        #expect(all[6].dropFirst(4) == ["topic: u", "apns-id: 3", "content-length: 2"])
        #expect(all[7...9].map { $0[2] } == ["one.example", "other.example", "push.example:8443"])
    }
}
