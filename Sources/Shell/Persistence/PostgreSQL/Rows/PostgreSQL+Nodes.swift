import Addressing
import Bytes
import Calling
import PostgreSQLClient
import ProxyCore
import ProxyPolicy
import Registration
import Routing
import Timekeeping

/// The SQL statements by which the nodes of a cluster share the store. The statements are sent outside a transaction.
extension PostgreSQLTables {
    /// Commits the announcements of requests that wait at a node, before any later statement reads.
    func send(waiting announcements: [Announcement], at node: String) throws(PostgreSQLError) {
        guard !announcements.isEmpty else { return }
        let users = announcements.map(\.aor)
        try send("BEGIN")
        try send(
            """
            INSERT INTO waiting SELECT DISTINCT u.domain, u.username, $3 FROM unnest($1::bytea[], $2::bytea[])
                AS u(username, domain) ON CONFLICT DO NOTHING
            """, ByteArray(values: users.map(\.user)), ByteArray(values: users.map(\.host)), node)
        for invite in announcements.compactMap(\.invite) { try send(held: invite, at: node) }
        try send("COMMIT")
    }

    /// Writes an INVITE with which another node can continue its call.
    func send(held invite: HeldInvite, at node: String) throws(PostgreSQLError) {
        try send(
            "INSERT INTO held_call VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9) ON CONFLICT DO NOTHING", node, invite.aor.user,
            invite.aor.host, invite.callID, invite.request, invite.source.transport.parameterName,
            invite.source.listener, invite.source.remote, invite.until)
    }

    /// Adds changes of a call to its row.
    func send(_ changes: [UInt8], of call: HeldCallKey, at node: String) throws(PostgreSQLError) {
        try send(
            """
            UPDATE held_call SET changes = changes || $5
                WHERE node = $1 AND domain = $2 AND username = $3 AND call_id = $4
            """, node, call.aor.host, call.aor.user, call.callID, ByteString(changes))
    }

    /// Deletes a call that no longer waits.
    func send(ended callID: ByteString, of aor: AddressOfRecord, at node: String) throws(PostgreSQLError) {
        try send(
            "DELETE FROM held_call WHERE node = $1 AND domain = $2 AND username = $3 AND call_id = $4", node, aor.host,
            aor.user, callID)
    }

    /// Deletes the announcements of users for whose phones nothing waits at a node any more.
    func send(over users: [AddressOfRecord], at node: String) throws(PostgreSQLError) {
        try send(
            """
            DELETE FROM waiting USING unnest($1::bytea[], $2::bytea[]) AS u(username, domain)
                WHERE waiting.username = u.username AND waiting.domain = u.domain AND node = $3
            """, ByteArray(values: users.map(\.user)), ByteArray(values: users.map(\.host)), node)
    }

    /// Sends the queries for the bindings, the missed calls and the rules of users, and for accounts.
    func sendUsers(_ subjects: [UserSubject]) throws(PostgreSQLError) {
        var users: [AddressOfRecord] = []
        var devices: [Int64] = []
        var accounts: [(name: ByteString, realm: ByteString)] = []
        for subject in subjects {
            switch subject {
            case .user(let aor): users.append(aor)
            case .device(let device): devices.append(Int64(bitPattern: device.rawValue))
            case .account(let name, let realm): accounts.append((name, realm))
            }
        }
        let (names, domains) = (ByteArray(values: users.map(\.user)), ByteArray(values: users.map(\.host)))
        try send(
            """
            SELECT b.id, b.username, b.domain, b.contact, b.call_id, b.cseq, b.path, b.transport, b.listener, b.remote,
                b.granted, b.fresh_until, b.registered_at, b.is_push, b.user_agent, b.nonce, b.nonce_count
                FROM (SELECT * FROM unnest($1::bytea[], $2::bytea[]) AS u(username, domain)
                UNION SELECT username, domain FROM binding WHERE id = ANY($3::bigint[])) AS u
                JOIN binding b ON b.domain = u.domain AND b.username = u.username ORDER BY b.id
            """, names, domains, NumberArray(values: devices))
        try send(
            """
            SELECT e.call_ref, e.username, e.domain, e.caller, e.date, e.devices, e.is_over, e.told, e.brought_by
                FROM (SELECT * FROM unnest($1::bytea[], $2::bytea[]) AS u(username, domain)
                UNION SELECT username, domain FROM binding WHERE id = ANY($3::bigint[])) AS u
                JOIN bucket_entry e ON e.domain = u.domain AND e.username = u.username
            """, names, domains, NumberArray(values: devices))
        try send(
            """
            SELECT r.username, r.domain, r.rules FROM (SELECT * FROM unnest($1::bytea[], $2::bytea[]) AS u(username, domain)
                UNION SELECT username, domain FROM binding WHERE id = ANY($3::bigint[])) AS u
                JOIN user_rules r ON r.domain = u.domain AND r.username = u.username
            """, names, domains, NumberArray(values: devices))
        try send(
            """
            SELECT DISTINCT a.name, a.realm, a.ha1_md5, a.ha1_sha256, a.ha1_sha512_256
                FROM unnest($1::bytea[], $2::bytea[]) AS u(name, realm)
                JOIN account a ON a.realm = u.realm AND a.name = u.name
            """, ByteArray(values: accounts.map(\.name)), ByteArray(values: accounts.map(\.realm)))
    }

    /// Sends the query for the other nodes at which something waits for phones of the users.
    func sendNodes(waitingFor users: [AddressOfRecord], besides node: String) throws(PostgreSQLError) {
        try send(
            """
            SELECT DISTINCT w.username, w.domain, w.node FROM unnest($1::bytea[], $2::bytea[]) AS u(username, domain)
                JOIN waiting w ON w.domain = u.domain AND w.username = u.username WHERE w.node <> $3
            """, ByteArray(values: users.map(\.user)), ByteArray(values: users.map(\.host)), node)
    }

    /// Sends the statement by which `node` takes over stored messages that no living node has, and that returns them.
    /// Messages of the present `run` are left out. At its start, the node also takes the messages of its earlier runs.
    /// The messages have ids after `last`.
    func send(
        messagesTo node: String, run: UInt32, isStart: Bool, after last: Int64
    ) throws(PostgreSQLError) {
        try send(
            """
            WITH chosen AS (
                SELECT id FROM message m WHERE id > $4 AND id >> 30 <> $2 AND (
                    node IS NULL OR node = $1 AND $3::bigint = 1
                    OR NOT EXISTS (SELECT 1 FROM node n WHERE n.name = m.node))
                ORDER BY id LIMIT 2000 FOR UPDATE SKIP LOCKED)
            UPDATE message m SET node = $1 FROM chosen WHERE m.id = chosen.id
            RETURNING m.id, m.username, m.domain, m.sender, m.transport, m.listener, m.remote, m.received_at,
                m.expires_at, m.devices, m.request
            """, node, Int64(run), Int64(isStart ? 1 : 0), last)
    }

    /// Raises the revisions of changed tables, so that the other nodes read the tables again.
    ///
    /// A transaction raises revisions after its other changes, and in the order of the tables. Otherwise two transactions
    /// could wait for each other.
    func raiseRevisions(of changed: Set<OperatorTable>) throws(PostgreSQLError) {
        for table in OperatorTable.allCases where changed.contains(table) {
            try send(
                """
                INSERT INTO revision VALUES ($1, 1)
                ON CONFLICT (name) DO UPDATE SET number = revision.number + 1
                """, table.rawValue)
        }
    }

    /// Writes counts of this node for the other nodes. All ages are by the clock of the database.
    func send(told row: ToldCounts.Unsent.Row, run: UInt32, now: Instant) throws(PostgreSQLError) {
        try send(
            "INSERT INTO told_count VALUES ($1, $2, clock_timestamp(), $3) ON CONFLICT DO NOTHING", Int64(run),
            row.number, ToldCounts.bytes(of: row.counts, aged: now - row.at))
    }

    /// Sends the query for the counts of other runs that this node has not read, and deletes old rows.
    func sendCounts(besides run: UInt32, after places: ToldCounts.Places) throws(PostgreSQLError) {
        try send(
            """
            SELECT c.run, c.number, (extract(epoch FROM clock_timestamp() - c.at) * 1000)::bigint, c.counts
            FROM told_count c LEFT JOIN unnest($2::bigint[], $3::bigint[]) AS k(run, number) ON k.run = c.run
            WHERE c.run <> $1 AND (k.number IS NULL OR c.number > k.number)
                AND c.at > clock_timestamp() - interval '60 seconds' ORDER BY c.run, c.number
            """, Int64(run), NumberArray(values: places.runs), NumberArray(values: places.numbers))
        try send(
            """
            DELETE FROM told_count WHERE (run, number) IN (
                SELECT run, number FROM told_count WHERE at < clock_timestamp() - interval '60 seconds'
                FOR UPDATE SKIP LOCKED)
            """)
    }

    /// Gives the duties to the run of a node, if no living node has them, and sends the query for the run with the duties.
    ///
    /// A node that gave no sign of life has no row in the table `node` any more. If two nodes want the duties together,
    /// the second waits for the first, and then sees that a living node has the duties. Most signs of life write nothing.
    func send(dutiesTo run: UInt32) throws(PostgreSQLError) {
        try send(
            """
            INSERT INTO duty SELECT 'cluster', $1 WHERE NOT EXISTS (
                SELECT 1 FROM duty d JOIN node n ON n.run = d.run WHERE n.seen > '-infinity')
            ON CONFLICT (name) DO UPDATE SET run = $1 WHERE NOT EXISTS (
                SELECT 1 FROM node n WHERE n.run = duty.run AND n.seen > '-infinity')
            """, Int64(run))
        try send("SELECT run FROM duty WHERE name = 'cluster'")
    }

    /// Sends the queries for one page of contacts, which reads a range of the primary key.
    ///
    /// An index on the expiry would make each REGISTER more expensive, so there is none.
    func send(page question: ContactSearch.Question) throws(PostgreSQLError) {
        // Before the first page, the number is lower than all numbers.
        let after = question.after.map { Int64(bitPattern: $0.rawValue) } ?? .min
        var (date, refreshUntil) = (UnixTime(milliseconds: 0), UnixTime(milliseconds: 0))
        var domains: ByteArray?
        switch question.wanted {
        case .expiring(let now, let end): (date, refreshUntil) = (now, end ?? refreshUntil)
        case .withPush(let wanted): domains = ByteArray(values: wanted)
        }
        try send(
            """
            SELECT id, username, domain, contact, call_id, cseq, path, transport, listener, remote, granted, fresh_until,
                registered_at, is_push, user_agent, nonce, nonce_count
            FROM binding
            WHERE id > $1 AND id <= (
                SELECT max(id) FROM (SELECT id FROM binding WHERE id > $1 ORDER BY id LIMIT $2) AS page)
                AND ($5::bytea[] IS NULL AND (
                    is_push = 0 AND fresh_until <= $3 OR is_push <> 0 AND fresh_until > $3 AND fresh_until <= $4)
                    OR is_push <> 0 AND domain = ANY($5::bytea[]))
            ORDER BY id
            """, after, question.limit, date, refreshUntil, domains)
        try send(
            """
            SELECT count(*)::bigint, coalesce(max(id), 0), coalesce(max(fresh_until), 0)
            FROM (SELECT id, fresh_until FROM binding WHERE id > $1 ORDER BY id LIMIT $2) AS page
            """, after, question.limit)
    }

    /// Writes a node's sign of life, takes over the calls of nodes that have ended, and sends the queries for the other
    /// living nodes and for the revisions of tables.
    ///
    /// A node that is just giving its sign of life holds the lock of its row, and does not count as dead. Otherwise two
    /// nodes could wait for each other.
    func send(
        alive node: String, at place: String, run: UInt32, version: String, takesOver: Bool, keepsOld: Bool
    ) throws(PostgreSQLError) {
        try send(
            """
            INSERT INTO node (name, place, run, seen, version, schema_number, described_run)
            VALUES ($1, $2, $3, clock_timestamp(), $4, $5, $3)
            ON CONFLICT (name) DO UPDATE SET place = $2, run = $3, seen = clock_timestamp(), version = $4,
                schema_number = $5, described_run = $3
            RETURNING (xmax <> 0)::int::bigint
            """, node, place, Int64(run), version, PostgreSQLSchema.migrations.count)
        try send(
            """
            WITH dead AS (
                DELETE FROM node WHERE name IN (
                    SELECT name FROM node WHERE name <> $1 AND (seen = '-infinity'
                        OR $2::bigint = 1 AND seen < clock_timestamp() - interval '5 seconds')
                    FOR UPDATE SKIP LOCKED) RETURNING name
            ), announced AS (DELETE FROM waiting USING dead WHERE waiting.node = dead.name)
            DELETE FROM held_call h USING dead WHERE h.node = dead.name
                RETURNING h.node, h.username, h.domain, h.call_id, h.request, h.transport, h.listener, h.remote, h.until,
                    h.changes
            """, node, Int64(takesOver ? 1 : 0))
        try sendNodes(besides: node, withSilent: keepsOld)
        try send("SELECT name, number FROM revision")
    }

    /// Sends the query for the other nodes that are alive, and perhaps for nodes that gave no sign of life lately.
    func sendNodes(besides node: String, withSilent: Bool) throws(PostgreSQLError) {
        try send(
            """
            SELECT name, place, run, CASE WHEN described_run = run THEN version END FROM node
            WHERE name <> $1 AND place <> '' AND seen > '-infinity'
                AND ($2::bigint = 1 OR seen > clock_timestamp() - interval '5 seconds') ORDER BY name
            """, node, Int64(withSilent ? 1 : 0))
    }
}

extension StoredRow {
    /// The node in the current row of ``PostgreSQLTables/sendNodes(besides:withSilent:)``.
    var peerNode: PeerNode {
        PeerNode(name: text(0), place: byteString(1), run: UInt32(truncatingIfNeeded: integer(2)))
    }

    /// The INVITE in the current row of the table `held_call`; `nil` if the row is malformed.
    var heldInvite: HeldInvite? {
        guard let transport = withBytes(5, { Transport(ascii: $0) }), let listener = UInt16(exactly: integer(6)),
            let remote = withBytes(7, { Endpoint(ascii: $0) })
        else { return nil }
        return HeldInvite(
            aor: AddressOfRecord(user: byteString(1), host: byteString(2)), callID: byteString(3),
            request: byteString(4),
            source: Flow(transport: transport, listener: listener, connection: 0, remote: remote),
            until: UnixTime(milliseconds: integer(8)),
            call: SharedCallChanges.call(in: bytes(9), request: byteString(4)))
    }
}

extension ContactPage {
    /// Reads the results of ``PostgreSQLTables/send(page:)``, in the order of its queries.
    init?(_ results: inout ArraySlice<PostgreSQLRows>, limit: Int) {
        guard let rows = results.popFirst(), let sums = results.popFirst(), sums.count > 0 else { return nil }
        var texts = ByteStringWriter(capacity: 1 << 12)
        let isLast = sums[0].integer(0) < Int64(limit)
        self.init(
            rows: rows.values { $0.storedBinding(&texts) },
            last: isLast ? nil : DeviceID(rawValue: UInt64(bitPattern: sums[0].integer(1))),
            latest: UnixTime(milliseconds: sums[0].integer(2)))
    }
}

/// Texts as an array of PostgreSQL's type `bytea`.
private struct ByteArray: SQLParameter {
    let values: [ByteString]

    func bind(to statement: some SQLParameters, at index: Int) {
        statement.bind(index, blob: PostgreSQLParameters.array(values.map(\.array)).span)
    }
}

/// Numbers as an array of PostgreSQL's type `bigint`.
private struct NumberArray: SQLParameter {
    let values: [Int64]

    func bind(to statement: some SQLParameters, at index: Int) {
        statement.bind(index, blob: PostgreSQLParameters.array(values).span)
    }
}
