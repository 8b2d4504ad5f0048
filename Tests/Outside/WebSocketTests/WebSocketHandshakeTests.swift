import Testing
import WebSocket

@Suite("The WebSocket handshake")
struct WebSocketHandshakeTests {
    private func request(_ change: (inout WebSocketHandshake.Request) -> Void = { _ in }) -> WebSocketHandshake.Request
    {
        var request = WebSocketHandshake.Request()
        request.isGet = true
        request.upgrade = ["websocket"]
        request.connection = ["keep-alive, Upgrade"]
        request.version = ["13"]
        request.key = ["dGhlIHNhbXBsZSBub25jZQ=="]
        request.subprotocols = ["msrp", "SIP, other"]
        request.origin = ["https://phone.example.net"]
        change(&request)
        return request
    }

    private func refusal(
        origins: Set<String> = [], _ change: (inout WebSocketHandshake.Request) -> Void
    ) -> WebSocketHandshake.Refusal? {
        do throws(WebSocketHandshake.Refusal) {
            _ = try WebSocketHandshake(request(change), subprotocol: "sip", origins: origins)
            return nil
        } catch {
            return error
        }
    }

    @Test func `the answer to the key of RFC 6455 section 1_3`() throws {
        let handshake = try WebSocketHandshake(request(), subprotocol: "sip", origins: [])
        #expect(handshake.accept == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        #expect(handshake.subprotocol == "sip")
    }

    @Test func `each missing or wrong part of the handshake causes its own refusal`() {
        #expect(refusal { _ in } == nil)
        #expect(refusal { $0.upgrade = [] } == .notAsked)
        #expect(refusal { $0.upgrade = ["websockets"] } == .notAsked)
        #expect(refusal { $0.connection = ["keep-alive"] } == .notAsked)
        #expect(refusal { $0.version = ["8"] } == .version)
        #expect(refusal { $0.version = ["13", "13"] } == .version)
        #expect(refusal { $0.isGet = false } == .malformed)
        #expect(refusal { $0.key = [] } == .malformed)
        #expect(refusal { $0.key = ["AAAA"] } == .malformed)
        #expect(refusal { $0.key = ["dGhlIHNhbXBsZSBub25jZQ"] } == .malformed)
        #expect(refusal { $0.key += $0.key } == .malformed)
        #expect(refusal { $0.subprotocols = ["sipx"] } == .subprotocol)
        #expect(refusal { $0.subprotocols = [] } == .subprotocol)
    }

    @Test func `an origin must be in a list of origins, but a handshake without an origin is accepted`() {
        let listed: Set = ["https://phone.example.net"]
        #expect(refusal(origins: listed) { _ in } == nil)
        #expect(refusal(origins: listed) { $0.origin = [] } == nil)
        #expect(refusal(origins: listed) { $0.origin = ["https://evil.example.net"] } == .origin)
        #expect(refusal(origins: listed) { $0.origin.append("https://evil.example.net") } == .origin)
        #expect(refusal(origins: []) { $0.origin = ["https://evil.example.net"] } == nil)
    }
}
