import Addressing
import Testing

@Suite("Addresses")
struct AddressTests {
    @Test(
        arguments: [
            ("192.0.2.1", "192.0.2.1"), ("0.0.0.0", "0.0.0.0"), ("255.255.255.255", "255.255.255.255"), ("::", "::"),
            ("::1", "::1"), ("[2001:DB8:0:0:1:0:0:1]", "2001:db8::1:0:0:1"), ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
            ("1::", "1::"), ("1:0:0:2::", "1:0:0:2::"), ("::ffff:192.0.2.1", "192.0.2.1"),
            ("64:ff9b::1.2.3.4", "64:ff9b::102:304"),
            ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"),
        ])
    func `are read and written`(text: String, expected: String) throws {
        let address = try #require(IPAddress(text))
        #expect(address.description == expected)
        #expect(IPAddress(address.uriHost) == address)
    }

    @Test(arguments: [
        "", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.04", "1.2.3.-4", "1.2.3.4 ", "[1.2.3.4]", "0x7f.0.0.1",
        "2130706433", ":",
        ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "g::", "::1%eth0", "[::1", "::1]",
        "1:2:3:4:5:6:7:8::",
        "::1.2.3", "::1.2.3.4.5", "1:", "1:2:3:4:5:6:7:1.2.3.4", "127.1",
    ])
    func `in other notations are refused`(text: String) {
        #expect(IPAddress(text) == nil)
    }

    @Test func `have their properties`() {
        #expect(IPAddress("127.9.9.9")?.isLoopback == true)
        #expect(IPAddress("::1")?.isLoopback == true)
        #expect(IPAddress("128.0.0.1")?.isLoopback == false)
        #expect(IPAddress.anyV4.isUnspecified && IPAddress("::")?.isUnspecified == true)
        #expect(IPAddress.anyV4.isV4 && IPAddress("::")?.isV4 == false)
    }

    @Test func `endpoints need a port, and brackets around IPv6`() {
        #expect(Endpoint("192.0.2.1:5060")?.description == "192.0.2.1:5060")
        #expect(Endpoint("[::1]:5060")?.description == "[::1]:5060")
        for text in ["192.0.2.1", "::1:5060", "192.0.2.1:", "192.0.2.1:65536", ":5060", "h:1", "192.0.2.1:+1", ":", ""]
        {
            #expect(Endpoint(text) == nil)
        }
    }

    @Test(
        arguments: [
            ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.1", false), ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false), ("0.0.0.0/0", "8.8.8.8", true), ("0.0.0.0/0", "::1", false),
            ("::/0", "8.8.8.8", false), ("::/0", "2001:db8::1", true), ("2001:db8::/33", "2001:db8:8000::1", false),
            ("2001:db8::/32", "2001:db8:8000::1", true), ("2001:db8::1/128", "2001:db8::1", true),
            ("fe80::/65", "fe80::8000:0:0:1", false),
        ])
    func `blocks hold the addresses that share their prefix`(block: String, address: String, isInside: Bool) throws {
        #expect(try #require(AddressBlock(block)).contains(try #require(IPAddress(address))) == isInside)
    }

    @Test(arguments: ["", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "::/129", "10/8", "10.0.0.0/8/8"])
    func `blocks in other notations are refused`(text: String) {
        #expect(AddressBlock(text) == nil)
    }

    @Test func `transports know their names`() {
        for transport in Transport.allCases { #expect(Transport(parameter: transport.viaName) == transport) }
        #expect(Transport(parameter: "sctp") == nil)
        #expect(Transport.allCases.filter { !$0.isReliable } == [.udp])
    }
}
