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

    @Test(arguments: [0, 1, 2])
    func `the nodes' listener shares no connection, wherever it is in the list`(place: Int) throws {
        let bound = try #require(Endpoint("192.0.2.20:5060"))
        let listeners = (0..<3).map { number in
            Listener(
                number: UInt16(number), transport: .tls, bound: bound, sentBy: ByteString("192.0.2.20:5060"),
                isForNodes: number == place)
        }
        let sources = OutgoingAddresses(listeners)
        let flows = (0..<3).map { Self.asked(by: UInt16($0)) }
        let others = flows.indices.filter { $0 != place }.map { flows[$0] }
        #expect(sources.address(of: flows[place]) == bound.address)
        #expect(sources.wish(others[0]) == sources.wish(others[1]))
        #expect(!others.map(sources.wish).contains(sources.wish(flows[place])))
        #expect(sources.askers(of: flows[place].on(connection: 7)) == [flows[place]])
        #expect(sources.askers(of: others[0].on(connection: 7)) == others)
    }
}
