import Addressing
import HEP
import TestSupport
import Testing

@Suite("HEP packets")
struct HEPPacketTests {
    private let agent = HEPPacket.Agent(id: 0xe4, name: Array("node1".utf8))

    private func endpoint(_ text: String) throws -> Endpoint { try #require(Endpoint(text)) }

    /// The example packet of the HEP3 specification, revision 37, which has 113 bytes.
    @Test func `the example of the specification has the same chunks with the same bytes`() throws {
        let example: [UInt8] =
            [0x48, 0x45, 0x50, 0x33, 0x00, 0x71]
            + [0x00, 0x00, 0x00, 0x01, 0x00, 0x07, 0x02]
            + [0x00, 0x00, 0x00, 0x02, 0x00, 0x07, 0x11]
            + [0x00, 0x00, 0x00, 0x03, 0x00, 0x0a, 0xd4, 0xca, 0x00, 0x01]
            + [0x00, 0x00, 0x00, 0x04, 0x00, 0x0a, 0x52, 0x74, 0x00, 0xd3]
            + [0x00, 0x00, 0x00, 0x07, 0x00, 0x08, 0x2e, 0xea]
            + [0x00, 0x00, 0x00, 0x08, 0x00, 0x08, 0x13, 0xc4]
            + [0x00, 0x00, 0x00, 0x09, 0x00, 0x0a, 0x4e, 0x49, 0x82, 0xcb]
            + [0x00, 0x00, 0x00, 0x0a, 0x00, 0x0a, 0x00, 0x01, 0xd4, 0xc0]
            + [0x00, 0x00, 0x00, 0x0b, 0x00, 0x07, 0x01]
            + [0x00, 0x00, 0x00, 0x0c, 0x00, 0x0a, 0x00, 0x00, 0x00, 0xe4]
            + [0x00, 0x00, 0x00, 0x0f, 0x00, 0x14] + Array("INVITE sip:bob".utf8)
        let packet = HEPPacket(
            .sip, from: try endpoint("212.202.0.1:12010"), to: try endpoint("82.116.0.211:5060"), isDatagram: true,
            time: 0x4e49_82cb * 1_000_000 + 0x1d4c0)
        let (bytes, isCut) = packet.bytes(
            payload: Array("INVITE sip:bob".utf8).span, from: HEPPacket.Agent(id: 0xe4, name: []), limit: 65_535)
        #expect(!isCut)
        let (theirs, ours) = (try #require(HEPDecoder(example)), try #require(HEPDecoder(bytes)))
        // The daemon's packet differs from the example only in the order of the chunks, because sngrep expects the
        // addresses after the agent's id.
        #expect(bytes.count == example.count)
        #expect(ours.chunks.sorted { $0.type < $1.type } == theirs.chunks)
        #expect(ours.payloadForSngrep(hasPassword: false) == Array("INVITE sip:bob".utf8))
    }

    @Test func `IPv6, password, name and Call-ID are read in any order, and in the order of sngrep`() throws {
        let packet = HEPPacket(
            .log, from: try endpoint("[2001:db8::1]:5061"), to: try endpoint("[2001:db8::2]:443"), isDatagram: false,
            time: 1_764_000_000_123_456, correlation: Array("call@pbx".utf8))
        let agent = HEPPacket.Agent(id: 7, name: Array("node1".utf8), password: Array("key".utf8))
        let bytes = packet.bytes(payload: Array("{}".utf8).span, from: agent, limit: 65_535).bytes
        let read = try #require(HEPDecoder(bytes))
        #expect(read.number(0x01) == 10)
        #expect(read.number(0x02) == 6)
        #expect(read.bytes(0x05) == [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
        #expect(read.bytes(0x06)?.last == 2)
        #expect(read.number(0x07) == 5061)
        #expect(read.number(0x08) == 443)
        #expect(read.number(0x09) == 1_764_000_000)
        #expect(read.number(0x0a) == 123_456)
        #expect(read.number(0x0b) == 100)
        #expect(read.number(0x0c) == 7)
        #expect(read.text(0x0e) == "key")
        #expect(read.text(0x0f) == "{}")
        #expect(read.text(0x13) == "node1")
        #expect(read.text(0x11) == "call@pbx")
        #expect(read.payloadForSngrep(hasPassword: true) == Array("{}".utf8))
        #expect(read.payloadForSngrep(hasPassword: false) == nil)
    }

    @Test(arguments: [HEPPacket.longest, HEPPacket.longestDatagram, 300, 0])
    func `a message that is too long loses its end, and the packet stays readable`(limit: Int) throws {
        let packet = HEPPacket(
            .sip, from: try endpoint("192.0.2.1:5060"), to: try endpoint("192.0.2.2:5060"), isDatagram: true, time: 0)
        let payload = [UInt8](repeating: UInt8(ascii: "a"), count: 70_000)
        let (bytes, isCut) = packet.bytes(payload: payload.span, from: agent, limit: limit)
        #expect(isCut)
        #expect(bytes.count <= max(limit, 120))
        #expect(HEPDecoder(bytes)?.bytes(0x0f)?.allSatisfy { $0 == UInt8(ascii: "a") } == true)
    }

    @Test func `long texts of the settings and of callers do not make the lengths wrong`() throws {
        let long = [UInt8](repeating: UInt8(ascii: "n"), count: 70_000)
        let packet = HEPPacket(
            .log, from: try endpoint("192.0.2.1:5060"), to: try endpoint("192.0.2.2:443"), isDatagram: false, time: -5,
            correlation: long)
        let agent = HEPPacket.Agent(id: .max, name: long, password: long)
        let (bytes, _) = packet.bytes(payload: long.span, from: agent, limit: HEPPacket.longest)
        #expect(bytes.count == HEPPacket.longest)
        #expect(HEPDecoder(bytes)?.number(0x09) == 0)
    }

    @Test func `addresses of two families become one family`() throws {
        let packet = HEPPacket(
            .sip, from: try endpoint("192.0.2.1:5060"), to: try endpoint("[2001:db8::2]:5060"), isDatagram: true,
            time: 0)
        let payload: [UInt8] = []
        let bytes = packet.bytes(payload: payload.span, from: agent, limit: 65_535).bytes
        let read = try #require(HEPDecoder(bytes))
        #expect(read.bytes(0x05) == [UInt8](repeating: 0, count: 16))
    }
}
