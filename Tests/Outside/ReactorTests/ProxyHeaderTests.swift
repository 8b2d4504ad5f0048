import Addressing
import Reactor
import Testing

@Suite("The PROXY header")
struct ProxyHeaderTests {
    private static let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10]
    private static let v4 = Endpoint(IPAddress(v4: 0xc000_0201), 40000)
    private static let v4Body: [UInt8] = [192, 0, 2, 1, 127, 0, 0, 1, 0x9c, 0x40, 0x13, 0xc4]
    private static let v6Body: [UInt8] =
        [0x20, 1, 0xd, 0xb8] + [UInt8](repeating: 0, count: 11) + [1] + [UInt8](repeating: 0, count: 15) + [1]
        + [0x9c, 0x40, 0x13, 0xc5]

    private func read(_ bytes: [UInt8]) -> ProxyHeader { ProxyHeader(bytes.span) }

    private func read(_ text: String) -> ProxyHeader { read(Array(text.utf8)) }

    private func binary(_ command: UInt8, _ family: UInt8, _ body: [UInt8], more: [UInt8] = []) -> [UInt8] {
        Self.signature + [
            command, family, UInt8((body.count + more.count) >> 8), UInt8((body.count + more.count) & 255),
        ]
            + body + more
    }

    @Test func `version 1 names the peer, and does not include the bytes after it`() {
        let line = "PROXY TCP4 192.0.2.1 127.0.0.1 40000 5060\r\n"
        #expect(read(line + "REGISTER") == .header(length: line.utf8.count, source: Self.v4))
        let long = "PROXY TCP6 2001:db8::1 ::1 40000 5061\r\n"
        #expect(
            read(long) == .header(length: long.utf8.count, source: IPAddress("2001:db8::1").map { Endpoint($0, 40000) })
        )
        #expect(read("PROXY UNKNOWN\r\n") == .header(length: 15, source: nil))
        #expect(read("PROXY UNKNOWN ff ff 1 2\r\n") == .header(length: 25, source: nil))
    }

    @Test func `version 2 names the peer, with extensions behind it or without`() {
        let body = binary(0x21, 0x11, Self.v4Body, more: [4, 0, 1, 0])
        #expect(read(body + [1, 2]) == .header(length: body.count, source: Self.v4))
        let v6 = IPAddress("2001:db8::1").map { Endpoint($0, 40000) }
        #expect(read(binary(0x21, 0x21, Self.v6Body)) == .header(length: 52, source: v6))
        #expect(read(binary(0x20, 0, [])) == .header(length: 16, source: nil))
        #expect(read(binary(0x21, 0x31, [UInt8](repeating: 0, count: 216))) == .header(length: 232, source: nil))
    }

    @Test func `half of a header is waited for`() {
        for whole in [Array("PROXY TCP4 192.0.2.1 127.0.0.1 40000 5060\r\n".utf8), binary(0x21, 0x11, Self.v4Body)] {
            for count in 0..<whole.count { #expect(read(Array(whole.prefix(count))) == .incomplete, "\(count)") }
        }
    }

    @Test(arguments: [
        "REGISTER sip:example.net SIP/2.0\r\n", "PROXY TCP4 192.0.2.1 127.0.0.1 40000\r\n",
        "PROXY TCP4 192.0.2.1 127.0.0.1 40000 5060 7\r\n", "PROXY TCP4 192.0.2.1 127.0.0.1 70000 5060\r\n",
        "PROXY TCP4 2001:db8::1 ::1 40000 5060\r\n", "PROXY TCP6 192.0.2.1 127.0.0.1 40000 5060\r\n",
        "PROXY TCP4 192.0.2.1 127.0.0.1 4000x 5060\r\n", "PROXY TCP5 192.0.2.1 127.0.0.1 40000 5060\r\n",
        "PROXY TCP4 192.0.2.1 127.0.0.1 40000 5060\n", "PROXY TCP4  192.0.2.1 127.0.0.1 40000 5060\r\n",
        "PROXY \r\n", "PROXY \n", "proxy TCP4 192.0.2.1 127.0.0.1 40000 5060\r\n",
    ])
    func `invalid headers are refused`(text: String) { #expect(read(text) == .invalid) }

    @Test func `a header that is too long, too short or of another version is refused`() {
        #expect(read("PROXY " + String(repeating: "x", count: 200)) == .invalid)
        #expect(read(binary(0x21, 0x11, [1, 2, 3])) == .invalid)
        #expect(read(binary(0x21, 0x21, Self.v4Body)) == .invalid)
        #expect(read(binary(0x11, 0x11, Self.v4Body)) == .invalid)
        #expect(read(binary(0x22, 0x11, Self.v4Body)) == .invalid)
        #expect(read(Self.signature + [0x21, 0x11, 0xff, 0xff]) == .invalid)
    }
}
