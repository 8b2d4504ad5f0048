import Addressing
import Bytes
import Calling
import Messaging
import PostgreSQLClient
import ProxyCore
import ProxyPolicy
import PushDelivery
import Reactor
import Registration
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

/// Tests how nodes share a PostgreSQL server: reads of single users, announcements, living nodes, and takeover.
@Suite(
    "Store in PostgreSQL, nodes", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: DatabaseServer.postgreSQL != nil, "PostgreSQL is not installed (Debian: postgresql)"))
struct PostgreSQLNodesTests {
    private let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))

    private func start() async throws -> (DatabaseServer, StoreFolder, PostgreSQLPlace) {
        let server = try await DatabaseServer.startPostgreSQL([])
        let folder = try StoreFolder(on: "host=\(server.folder.path) user=sippushd dbname=postgres")
        let place = try #require(folder.database)
        try PostgreSQLSchema.migrate(try place.open())
        return (server, folder, place)
    }

    private func read(
        _ nodes: PostgreSQLNodes, _ subjects: [UserSubject], waiting: Announcement? = nil
    ) async -> StoredUsers? {
        await withCheckedContinuation { waiter in
            nodes.read(subjects, waiting: waiting) { waiter.resume(returning: $0) }
        }
    }

    private func nodes(waitingFor aor: AddressOfRecord, _ nodes: PostgreSQLNodes) async -> [String] {
        await withCheckedContinuation { waiter in
            nodes.nodes(waitingFor: aor) { waiter.resume(returning: $0) }
        }
    }

    @Test func `a node reads the contacts of a user by the name or by a device, and nothing of others`() async throws {
        let (server, folder, place) = try await start()
        let tables = try place.open()
        try tables.transaction { () throws(PostgreSQLError) in
            for id in 1...3 as ClosedRange<UInt64> { _ = try tables.apply(.engine(.binding(.upsert(.sample(id))))) }
        }
        let all = try tables.bindings(after: nil, limit: 10)
        let nodes = try PostgreSQLNodes(place, name: "a", log: .silent)
        let first = try #require(all.first)
        let byName = try #require(await read(nodes, [.user(first.aor)]))
        #expect(byName.users.map(\.aor) == [first.aor])
        #expect(byName.users.first?.bindings == all.filter { $0.aor == first.aor })
        let byDevice = try #require(await read(nodes, [.device(first.id), .device(DeviceID(rawValue: 99))]))
        #expect(byDevice.users.map(\.aor) == [first.aor])
        let nobody = try #require(await read(nodes, [.user(bob), .account(name: bob.user, realm: bob.host)]))
        #expect(nobody.users.first?.bindings == [] && nobody.accounts.isEmpty)
        nodes.stop()
        _ = folder
        await server.ended()
    }

    @Test func `a refresh changes a row only if the phone has not registered later at another node`() async throws {
        let (server, folder, place) = try await start()
        let tables = try place.open()
        let row = StoredBinding.sample(1)
        func refresh(after time: Duration, id: DeviceID) throws -> [StoredBinding] {
            let refreshed = StoredBinding(
                id: id, aor: row.aor, contact: row.contact, callID: row.callID, cseq: row.cseq + 1, path: row.path,
                flow: row.flow, granted: row.granted, freshUntil: row.freshUntil + time,
                registeredAt: row.registeredAt + time, isPush: row.isPush, nonce: row.nonce)
            try tables.transaction { () throws(PostgreSQLError) in
                _ = try tables.apply(.engine(.binding(.refresh(refreshed))))
            }
            return try tables.bindings(after: nil, limit: 10)
        }
        try tables.transaction { () throws(PostgreSQLError) in
            _ = try tables.apply(.engine(.binding(.upsert(row))))
        }
        let stored = try tables.bindings(after: nil, limit: 10)
        #expect(try refresh(after: .milliseconds(-1), id: row.id) == stored)
        #expect(try refresh(after: .seconds(1), id: DeviceID(rawValue: 2)) == stored)
        #expect(try refresh(after: .seconds(1), id: row.id).map(\.cseq) == [row.cseq + 1])
        _ = folder
        await server.ended()
    }

    @Test func `the contact with a dead token is deleted only if the phone has no other contact since`() async throws {
        let (server, folder, place) = try await start()
        let tables = try place.open()
        let row = StoredBinding.sample(1)
        func remaining(after change: BindingChange) throws -> Int {
            try tables.transaction { () throws(PostgreSQLError) in
                _ = try tables.apply(.engine(.binding(change)))
            }
            return try tables.bindings(after: nil, limit: 10).count
        }
        #expect(try remaining(after: .upsert(row)) == 1)
        #expect(try remaining(after: .deleteContact(row.id, ByteString("<sip:old@192.0.2.1>"))) == 1)
        #expect(try remaining(after: .deleteContact(row.id, row.contact)) == 0)
        _ = folder
        await server.ended()
    }

    @Test func `a row of a failed commit is deleted, unless a later REGISTER has confirmed it`() async throws {
        let (server, folder, place) = try await start()
        let tables = try place.open()
        var unconfirmed = UnconfirmedRows()
        func entry(_ row: StoredBinding) -> StoreIntake.Batch {
            let ticket = StoreTicket.engine(CommitTicket(1))
            return StoreIntake.Batch(entries: [.init(ticket: ticket, changes: [.engine(.binding(.upsert(row)))])])
        }
        let rows = [StoredBinding.sample(1), .sample(2)]
        for row in rows { unconfirmed.failed(entry(row)) }
        let later = StoredBinding(
            id: rows[1].id, aor: rows[1].aor, contact: rows[1].contact, callID: rows[1].callID, cseq: rows[1].cseq + 1,
            path: rows[1].path, flow: rows[1].flow, granted: rows[1].granted, freshUntil: rows[1].freshUntil,
            registeredAt: rows[1].registeredAt, isPush: rows[1].isPush, nonce: rows[1].nonce)
        try tables.transaction { () throws(PostgreSQLError) in
            for row in [rows[0], later] { _ = try tables.apply(.engine(.binding(.upsert(row)))) }
        }
        try tables.transaction { () throws(PostgreSQLError) in try unconfirmed.remove(from: tables) }
        #expect(try tables.bindings(after: nil, limit: 10).map(\.id) == [rows[1].id])
        _ = folder
        await server.ended()
    }

    @Test func `two nodes tell two devices of the same missed call`() async throws {
        let (server, folder, place) = try await start()
        let tables = try place.open()
        func write(_ ref: UInt64, devices: [UInt64], told: [UInt64]) throws {
            let entry = BucketEntry(
                callRef: CallRef(rawValue: ref), caller: ByteString("sip:103@example.net"),
                date: UnixTime(seconds: 1_790_000_000), broughtBy: Caller(rawValue: 3),
                devices: devices.map(DeviceID.init(rawValue:)),
                told: told.map(DeviceID.init(rawValue:)), isOver: true)
            try tables.transaction { () throws(PostgreSQLError) in try tables.write(entry, of: bob) }
        }
        for ref in [7, 8] as [UInt64] {
            try write(ref, devices: ref == 7 ? [1, 2] : [1, 2, 13], told: [])
            try write(ref, devices: ref == 7 ? [2] : [2, 13], told: [1])
            // The other node has read the row before the first device was told.
            try write(ref, devices: ref == 7 ? [1] : [1, 13], told: [2])
        }
        let left = try tables.bucketEntries().map(\.entry)
        #expect(left.map(\.callRef.rawValue) == [8])
        #expect(left.first?.devices.map(\.rawValue) == [13])
        #expect(left.first?.told.map(\.rawValue).sorted() == [1, 2])
        _ = folder
        await server.ended()
    }

    @Test func `an announcement is found by the other nodes, and ends`() async throws {
        let (server, folder, place) = try await start()
        let (a, b) = (
            try PostgreSQLNodes(place, name: "a", log: .silent), try PostgreSQLNodes(place, name: "b", log: .silent)
        )
        #expect(a.run != b.run)
        _ = await read(a, [.user(bob)], waiting: Announcement(aor: bob, invite: nil))
        #expect(await nodes(waitingFor: bob, b) == ["a"])
        #expect(await nodes(waitingFor: bob, a) == [])
        a.endWaiting([bob])
        _ = await read(a, [.user(bob)])
        #expect(await nodes(waitingFor: bob, b) == [])
        a.stop()
        b.stop()
        _ = folder
        await server.ended()
    }

    @Test func `nodes that start for the first time together use one key for their journals`() async throws {
        let (server, folder, place) = try await start()
        let tables = try place.open()
        // The other node writes its key while this node makes one, so the store does not keep this node's key.
        try tables.transaction { () throws(PostgreSQLError) in
            try tables.send(
                """
                CREATE FUNCTION rival() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    NEW.value = decode(repeat('07', 32), 'hex');
                    RETURN NEW;
                END $$
                """)
            try tables.send("CREATE TRIGGER rival BEFORE INSERT ON secret FOR EACH ROW EXECUTE FUNCTION rival()")
        }
        let made = try JournalKey.stored(in: tables, of: place.name)
        #expect(made.isFirst)
        let rival = try JournalKey([UInt8](repeating: 7, count: JournalKey.byteCount))
        var bytes = [UInt8](repeating: 0, count: JournalKey.sealCount) + [1, 2, 3]
        made.key.seal(&bytes, from: JournalKey.sealCount)
        #expect(rival.isSealed(bytes, JournalKey.sealCount..<bytes.count))
        _ = folder
        await server.ended()
    }

    @Test func `an announcement is not withdrawn by an earlier withdrawal that waits, but by a later one`() {
        var waiting = PostgreSQLNodes.Waiting()
        waiting.over = [bob, alice]
        waiting.add(PostgreSQLNodes.Read(subjects: [], waiting: Announcement(aor: bob, invite: nil)) { _ in })
        #expect(waiting.over == [alice])
        waiting.add(PostgreSQLNodes.Read(subjects: [.user(alice)], waiting: nil) { _ in })
        waiting.over += [bob]
        #expect(waiting.over == [alice, bob] && waiting.reads.count == 2)
    }

    @Test func `a node that leaves hands its calls and their states to exactly one other node`() async throws {
        let (server, folder, place) = try await start()
        let names = ["a", "b", "c"]
        let nodes = try names.map { try PostgreSQLNodes(place, name: $0, log: .silent) }
        let news = names.map { _ in AsyncStream<NodeNews>.makeStream() }
        for (index, node) in nodes.enumerated() {
            node.join(at: "127.0.0.\(index + 1):5071") { news[index].continuation.yield($0) }
        }
        let invite = HeldInvite(
            aor: bob, callID: ByteString("call"), request: ByteString("INVITE"),
            source: Flow(transport: .udp, listener: 0, connection: 0, remote: Endpoint(IPAddress(v4: 0x7f00_0001), 9)),
            until: UnixTime(seconds: 2_000_000_000))
        _ = await read(nodes[0], [.user(bob)], waiting: Announcement(aor: bob, invite: invite))
        let begun = CallChange.begun(CallJournalTests.call(0, [CallJournalTests.branch()]).with(request: .empty))
        nodes[0].note(begun, of: invite.key)
        nodes[0].note(.branch(call: 0, number: 0, CallJournalTests.branch(.called)), of: invite.key)
        // The call of a phone with the same Call-ID, and a call that has ended.
        let alice = HeldCallKey(aor: bob, callID: invite.callID, phoneOf: bob)
        for key in [alice, HeldCallKey(aor: bob, callID: ByteString("over"))] {
            nodes[0].keep(
                HeldInvite(
                    aor: key.aor, callID: key.callID, request: invite.request, source: invite.source,
                    until: invite.until))
            nodes[0].note(begun, of: key)
        }
        nodes[0].endInvite(bob, callID: ByteString("over"))
        // A question is answered after all changes before it.
        _ = await read(nodes[0], [.user(bob)])
        nodes[0].stop()
        let taken = Locked<[HeldInvite]>([])
        await withTaskGroup { group in
            for index in 1...2 {
                group.addTask {
                    for await one in news[index].stream {
                        if case .invites(let invites) = one { taken.withLock { $0 += invites } }
                        if case .peers(let peers) = one, peers.map(\.name) == [names[3 - index]] { return }
                    }
                }
            }
        }
        // The nodes end their threads after everything that they have begun.
        nodes[1].stop()
        nodes[2].stop()
        for index in 1...2 { news[index].continuation.finish() }
        for index in 1...2 {
            for await one in news[index].stream {
                if case .invites(let invites) = one { taken.withLock { $0 += invites } }
            }
        }
        let invites = taken.withLock { $0 }
        #expect(Set(invites.map(\.key)) == [invite.key, alice] && invites.count == 2)
        #expect(invites.map(\.request) == [invite.request, invite.request])
        #expect(invites.first { $0.key == invite.key }?.call?.branches.map(\.stage) == [.called])
        #expect(invites.allSatisfy { $0.call?.request == invite.request })
        _ = folder
        await server.ended()
    }

    @Test func `each stored message of an ended node goes to one other node, and back when that node restarts`()
        async throws
    {
        let (server, folder, place) = try await start()
        let runs = ["a", "b", "c"]
        let nodes = try runs.map { try PostgreSQLNodes(place, name: $0, log: .silent) }
        var ofA = place
        ofA.node = "a"
        let tables = try ofA.open()
        let rows = (1...3).map { number in
            StoredMessage(
                id: UInt64(nodes[0].run) << OwnNode.runShift + UInt64(number), aor: bob,
                sender: ByteString("sip:103@x"),
                source: Flow(
                    transport: .udp, listener: 0, connection: 0, remote: Endpoint(IPAddress(v4: 0x7f00_0001), 9)),
                receivedAt: UnixTime(seconds: 1_700_000_000), expiresAt: UnixTime(seconds: 2_000_000_000), devices: [],
                request: ByteString("MESSAGE"))
        }
        try tables.transaction { () throws(PostgreSQLError) in
            for row in rows { _ = try tables.apply(.engine(.message(.insert(row)))) }
        }
        let taken = Locked<[Int: [StoredMessage]]>([:])
        let peers = Locked<[Int: [String]]>([:])
        for (index, node) in nodes.enumerated() {
            node.join(at: "127.0.0.\(index + 1):5071") { news in
                switch news {
                case .messages(let messages, _): taken.withLock { $0[index, default: []] += messages }
                case .peers(let others): peers.withLock { $0[index] = others.map(\.name) }
                case .invites, .changed, .takenOver, .counts, .alive, .duties: break
                }
            }
        }
        func see(_ names: [Int: [String]]) async throws {
            while !peers.withLock({ peers in names.allSatisfy { peers[$0.key] == $0.value } }) {
                try await Task.sleep(for: .milliseconds(20))
            }
            // The answer comes after everything that the node's thread has begun.
            for index in names.keys { _ = await self.nodes(waitingFor: bob, nodes[index]) }
        }
        try await see([0: ["b", "c"], 1: ["a", "c"], 2: ["a", "b"]])
        // A node's own messages of its present run are in its memory.
        #expect(taken.withLock { $0.isEmpty })
        nodes[0].stop()
        try await see([1: ["c"], 2: ["b"]])
        let all = taken.withLock { $0 }
        #expect(all.values.flatMap { $0 }.sorted { $0.id < $1.id } == rows)
        nodes[1].stop()
        nodes[2].stop()
        let again = try PostgreSQLNodes(place, name: "b", log: .silent)
        taken.withLock { $0 = [:] }
        again.join(at: "127.0.0.2:5071") { news in
            if case .messages(let messages, _) = news { taken.withLock { $0[9, default: []] += messages } }
        }
        while taken.withLock({ $0[9]?.count != 3 }) { try await Task.sleep(for: .milliseconds(20)) }
        again.stop()
        _ = folder
        await server.ended()
    }

    @Test func `a database that hangs gets no answer from the node within two seconds, and answers again later`()
        async throws
    {
        let (server, folder, place) = try await start()
        let nodes = try PostgreSQLNodes(place, name: "a", log: .silent)
        #expect(await read(nodes, [.user(bob)]) != nil)
        await server.stopped()
        #expect(await read(nodes, [.user(bob)]) == nil)
        server.continues()
        while await read(nodes, [.user(bob)]) == nil { try await Task.sleep(for: .milliseconds(20)) }
        nodes.stop()
        _ = folder
        await server.ended()
    }
}
