import Addressing
import ProxyCore
import Registration
import SIPGrammar
import Testing

@Suite("Dialog token in Record-Route")
struct DialogTokenTests {
    private let seal: ([UInt8]) -> [UInt8] = { bytes in
        // Any function of all bytes serves here; the daemon uses HMAC-SHA256.
        var value: UInt64 = 14_695_981_039_346_656_037
        for byte in bytes { value = (value ^ UInt64(byte)) &* 1_099_511_628_211 }
        return (0..<16).map { UInt8(truncatingIfNeeded: value >> (4 * UInt64($0 % 16))) }
    }

    private func side(_ address: String, _ transport: Transport, connection: UInt64 = 0, binding: UInt64? = nil)
        throws -> DialogSide
    {
        let endpoint = try #require(Endpoint(address))
        return DialogSide(
            flow: Flow(transport: transport, listener: 3, connection: connection, remote: endpoint),
            binding: binding.map(BindingID.init(rawValue:)))
    }

    @Test func `comes back as it was written, for IPv4 and IPv6, UDP and streams`() throws {
        let sides = [
            try side("192.0.2.7:5060", .udp), try side("[2001:db8::9]:65535", .tcp, connection: 281_474_976_710_655),
            try side("198.51.100.1:1", .tcp, connection: 77, binding: 1 << 62 | 5),
        ]
        for caller in sides {
            for callee in sides {
                let token = DialogToken(caller: caller, callee: callee)
                #expect(DialogToken(ByteString(token.sealed(by: seal)), seal: seal) == token)
            }
        }
    }

    @Test func `one changed character is refused`() throws {
        let token = DialogToken(
            caller: try side("192.0.2.7:5060", .udp), callee: try side("192.0.2.8:5060", .tcp, connection: 5))
        let text = token.sealed(by: seal)
        for index in text.indices {
            var changed = text
            changed[index] = changed[index] == UInt8(ascii: "0") ? UInt8(ascii: "1") : UInt8(ascii: "0")
            #expect(DialogToken(ByteString(changed), seal: seal) == nil)
        }
        #expect(DialogToken(ByteString("bob"), seal: seal) == nil)
        #expect(DialogToken(ByteString(text.dropLast(2)), seal: seal) == nil)
    }
}
