import Addressing
import Bytes
import ProxyPolicy
import SIPDialogs
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@testable import Routing

@Suite("Flow tokens of other versions")
struct FlowTokenTests {
    private let own = ByteString("192.0.2.21:5071")
    private let other = ByteString("192.0.2.22:5071")
    private let flow = Flow(
        transport: .tls, listener: 2, connection: 77, remote: Endpoint(IPAddress(v4: 0xcb00_7109), 5061))

    /// The place that a Path URI with the bytes of a token names, for a node in its run 5.
    private func place(of token: [UInt8], at place: ByteString) throws -> Nodes.Place? {
        var nodes = Nodes(
            OwnNode(name: "a", place: own, listener: 1, run: 5, secret: SipHash.Key(low: 0, high: 0)), seal: .forTests)
        _ = nodes.changed([PeerNode(name: "b", place: other, run: 9)], now: Instant(nanoseconds: 0))
        let text = ByteString(DialogSeal.forTests.seal(token, ByteString("flow token"), place))
        return nodes.place(of: try #require(SIPURI(ByteString("sip:\(text)@\(place);transport=tls;lr"))))
    }

    private func token(run: UInt8, more: [UInt8] = []) -> [UInt8] {
        var bytes: [UInt8] = [0, 0, 0, run]
        flow.pack(into: &bytes)
        return bytes + more
    }

    @Test func `bytes that a newer version appends are ignored`() throws {
        #expect(try place(of: token(run: 9), at: other) == .peer)
        #expect(try place(of: token(run: 9, more: [1, 2]), at: other) == .peer)
        #expect(try place(of: token(run: 5, more: [1, 2]), at: own) == .own(flow))
    }

    @Test func `a Path names the binding of its phone, and the Path of an older version names none`() throws {
        let nodes = Nodes(
            OwnNode(name: "a", place: own, listener: 1, run: 5, secret: SipHash.Key(low: 0, high: 0)), seal: .forTests)
        func binding(_ token: [UInt8]) throws -> DeviceID? {
            let text = ByteString(DialogSeal.forTests.seal(token, ByteString("flow token"), own))
            return nodes.ownBinding(of: try #require(SIPURI(ByteString("sip:\(text)@\(own);transport=tls;lr"))))
        }
        #expect(try binding(token(run: 5, more: [0, 0, 0, 0, 0, 0, 1, 4])) == DeviceID(rawValue: 260))
        #expect(try binding(token(run: 5)) == nil)
        // The phone has left the flow of an earlier run.
        #expect(try binding(token(run: 9, more: [0, 0, 0, 0, 0, 0, 1, 4])) == DeviceID(rawValue: 260))
    }

    @Test func `an unknown form of the flow leads to its node, and counts as gone at this node`() throws {
        #expect(try place(of: [0, 0, 0, 9, 255, 255], at: other) == .peer)
        #expect(try place(of: [0, 0, 0, 8, 255, 255], at: other) == .gone)
        #expect(try place(of: [0, 0, 0, 4, 255, 255], at: own) == .gone)
        #expect(try place(of: [0, 0, 9], at: own) == nil)
    }
}
