import Addressing
import Testing

@Suite("Flow")
struct FlowTests {
    private let flow = Flow(transport: .tcp, listener: 3, connection: 7, remote: Endpoint(.loopbackV4, 5060))

    @Test func `the server uses only padding between other fields`() {
        #expect(MemoryLayout<Flow>.size == 34)
    }

    @Test(arguments: [IPAddress(v4: 0x7f00_0001), IPAddress(high: 0x2001_0db8_0000_0000, low: 1), .anyV4])
    func `packed, it is read back`(address: IPAddress) {
        for transport in Transport.allCases {
            for connection in [0, 7, UInt64.max] {
                let flow = Flow(
                    transport: transport, listener: 0xabcd, connection: connection, remote: Endpoint(address, 0x1234))
                var bytes: [UInt8] = [1]
                flow.pack(into: &bytes)
                var index = 1
                #expect(Flow(packed: bytes.span, from: &index) == flow && index == bytes.count)
                index = 1
                #expect(Flow(packed: bytes.span.extracting(0..<9), from: &index) != flow)
            }
        }
        var bytes: [UInt8] = []
        Flow(transport: .udp, listener: 1, connection: 0, remote: Endpoint(.loopbackV4, 5060)).pack(into: &bytes)
        #expect(bytes.count == 9)
    }

    @Test func `flows to another server, or on another connection, are others`() {
        let other = Flow(
            transport: .tcp, listener: 3, connection: 7, remote: flow.remote, server: ServerNumber(0x0102))
        #expect(Set([other, flow, flow.on(connection: 8), flow.on(connection: 7)]).count == 3)
        #expect(other.closed.isClosed && other.closed.server == other.server)
        #expect(!other.on(connection: 0).isConnection && other.on(connection: 0).server == other.server)
    }
}
