import Routing
import Addressing
import Bytes
import ProxyCore
import Testing

@testable import ProxyRuntime

@Suite("Local addresses of connections")
struct OutgoingAddressesTests {
    private static let pbx = Endpoint(IPAddress(v4: 0x0a00_0002), 5060)

    private static func sources(_ places: String...) -> OutgoingAddresses {
        OutgoingAddresses(
            places.enumerated().map { index, place in
                Listener(
                    number: UInt16(index), transport: .tcp, bound: Endpoint(place) ?? Endpoint(.anyV4, 0),
                    sentBy: ByteString(place))
            })
    }

    private static func asked(by listener: UInt16) -> Flow {
        Flow(transport: .tcp, listener: listener, connection: 0, remote: pbx)
    }

    @Test func `it is the listener's, and the kernel's choice where that is bound to all`() {
        let sources = Self.sources("192.0.2.20:5060", "0.0.0.0:5060", "[2001:db8::1]:5060")
        #expect(sources.address(of: Self.asked(by: 0)) == IPAddress("192.0.2.20"))
        #expect(sources.address(of: Self.asked(by: 1)) == nil)
        #expect(sources.address(of: Self.asked(by: 2)) == IPAddress("2001:db8::1"))
        #expect(sources.address(of: Self.asked(by: 9)) == nil)
    }

    @Test func `listeners of one address share a connection, and all of them are told of its end`() {
        let sources = Self.sources("192.0.2.20:5060", "192.0.2.21:5060", "192.0.2.20:5070")
        #expect(sources.wish(Self.asked(by: 0)) == sources.wish(Self.asked(by: 2)))
        #expect(sources.wish(Self.asked(by: 0)) != sources.wish(Self.asked(by: 1)))
        #expect(sources.askers(of: Self.asked(by: 2).on(connection: 7)) == [Self.asked(by: 0), Self.asked(by: 2)])
        #expect(sources.askers(of: Self.asked(by: 9)) == [Self.asked(by: 9)])
    }
}
