import Addressing
import Testing
import TestSupport

@testable import SIPTransactions

@Suite("Client transactions of a flow")
struct ClientsByFlowTests {
    private func flow(_ connection: UInt64) -> Flow { tcp.on(connection: connection) }

    /// Creates a record for each connection, on the flow of the connection.
    private func records(on connections: [UInt64]) -> [ClientRecord] {
        connections.map { connection in
            var record = ClientRecord()
            record.places = ClientPlaces(sentOn: flow(connection))
            return record
        }
    }

    @Test func `a flow has its own transactions, the latest first`() {
        var clients = ClientsByFlow()
        var records = records(on: [7, 8, 7])
        for slot in records.indices {
            if let flow = records[slot].flow { clients.insert(slot, on: flow, in: &records) }
        }
        #expect(clients.slots(on: flow(7), in: records) == [2, 0])
        #expect(clients.slots(on: flow(8), in: records) == [1])
        #expect(clients.slots(on: flow(9), in: records) == [])
    }

    @Test(arguments: [0, 1, 2]) func `a transaction that leaves removes no other`(leaving: Int) {
        var clients = ClientsByFlow()
        var records = records(on: [7, 7, 7])
        for slot in records.indices { clients.insert(slot, on: flow(7), in: &records) }
        clients.remove(leaving, on: flow(7), in: &records)
        #expect(clients.slots(on: flow(7), in: records) == [2, 1, 0].filter { $0 != leaving })
        clients.insert(leaving, on: flow(7), in: &records)
        #expect(Set(clients.slots(on: flow(7), in: records)) == [0, 1, 2])
    }

    /// Most of the index's 4,096 hash chains contain several flows.
    @Test func `flows in one chain stay apart`() {
        var clients = ClientsByFlow()
        var generator = SeededGenerator()
        let connections = (1...20_000 as ClosedRange<UInt64>).shuffled(using: &generator)
        var records = records(on: connections)
        for slot in records.indices { clients.insert(slot, on: flow(connections[slot]), in: &records) }
        for slot in records.indices where slot % 2 == 0 {
            clients.remove(slot, on: flow(connections[slot]), in: &records)
        }
        let found = records.indices.map { clients.slots(on: flow(connections[$0]), in: records) }
        #expect(records.indices.allSatisfy { found[$0] == ($0 % 2 == 0 ? [] : [$0]) })
    }
}
