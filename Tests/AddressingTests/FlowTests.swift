import Addressing
import Testing

@Suite("Flow")
struct FlowTests {
    private let flow = Flow(
        transport: .tcp, listener: 3, connection: 7, remote: Endpoint(.loopbackV4, 5060),
        holder: FlowHolder(node: 2, shard: 1))

    @Test func `who holds it takes no room: it stands between fields that leave some`() {
        #expect(MemoryLayout<Flow>.size == 34)
    }

    @Test func `flows that others hold are others`() {
        let here = Flow(transport: .tcp, listener: 3, connection: 7, remote: flow.remote)
        #expect(here != flow && here.holder == .here)
        #expect(Set([here, flow, flow.on(connection: 8), flow.on(connection: 7)]).count == 3)
    }

    @Test func `it stays with its holder when its connection ends`() {
        #expect(flow.closed.isClosed && flow.closed.holder == flow.holder)
        #expect(!flow.on(connection: 0).isConnection && flow.on(connection: 0).holder == flow.holder)
    }
}
