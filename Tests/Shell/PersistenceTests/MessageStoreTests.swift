import Messaging
import Addressing
import Bytes
import ProxyCore
import Registration
import Storage
import StoreTesting
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

@Suite("Messages in the store")
struct MessageStoreTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func sample(_ id: UInt64, devices: [DeviceID] = [1, 2]) throws -> StoredMessage {
        let source = Flow(
            transport: .tcp, listener: 3, connection: 0, remote: try #require(Endpoint("[2001:db8::1]:5060")))
        return StoredMessage(
            id: id, aor: alice, sender: ByteString("sip:103@x"), source: source,
            receivedAt: UnixTime(milliseconds: 1_700_000_000_123), expiresAt: UnixTime(seconds: 1_700_000_999),
            devices: devices, request: ByteString([0, 255, 13, 10, 0]))
    }

    @Test func `are read back as they were written, in order`() async throws {
        let writer = try ObservedWriter(folder)
        let (first, second, third) = (try sample(1), try sample(2), try sample(1 << 40, devices: []))
        #expect(
            await writer.write(
                [
                    .engine(.message(.insert(third))), .engine(.message(.insert(second))),
                    .engine(.message(.insert(first))), .engine(.message(.insert(try sample(7)))),
                    .engine(.message(.left(2, [2]))), .engine(.message(.delete(7))),
                    .service(.forgetMessages([9])),
                ]) == true)
        writer.writer.stop()
        var left = second
        left.devices = [2]
        #expect(try folder.read { try $0.messages() } == [first, left, third])
    }

    @Test(.onlySQLite) func `have their table after an upgrade`() async throws {
        do {
            let old = try Connection(path: folder.path)
            try old.migrate(Array(StoreSchema.scripts.prefix(9)), applicationID: StoreSchema.applicationID)
        }
        let writer = try ObservedWriter(folder)
        #expect(await writer.write([.engine(.message(.insert(try sample(1))))]) == true)
        writer.writer.stop()
        #expect(try folder.read { try $0.messages() }.count == 1)
    }
}
