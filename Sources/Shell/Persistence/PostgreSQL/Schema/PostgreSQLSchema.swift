/// The tables of the store in PostgreSQL, with times in milliseconds since 1970. Column for column, the tables are
/// those of ``StoreSchema``.
///
/// Values from SIP messages have the type `bytea`, because they can have any bytes. After `SET bytea_output =
/// 'escape'`, psql shows their ASCII characters. Texts that the daemon itself makes have the type `text`. Columns that
/// are sorted or compared have the collation C, so that the order does not depend on the server's language.
///
/// During an upgrade of a cluster, nodes of an older version use the database after a node of a newer version has
/// migrated it. So each migration states the oldest schema whose programs can still use the database. The author of a
/// migration keeps an older schema in `oldest` if each statement is one of these:
///
/// - It creates tables, sequences, and indexes of new tables.
/// - It adds columns that accept NULL or have a constant default. PostgreSQL then rewrites no row. Older programs write
///   rows without the columns, and leave the columns of existing rows alone.
///
/// A migration that does anything else names its own number in `oldest`. Such a migration waits until no older node
/// runs. Examples are removed or renamed columns, new constraints, indexes of existing tables, and new values in columns
/// that older programs read.
///
/// So that columns can be added, each statement of the daemon names the columns that it reads. PostgreSQL refuses a
/// prepared `SELECT *` after a column was added. An INSERT without names of columns writes the first columns.
enum PostgreSQLSchema {
    /// One step of the schema.
    struct Migration {
        /// The number of the oldest schema whose programs can use the database after the step.
        let oldest: Int
        let statements: [String]
    }

    /// The steps of the schema, in their order. The step of a released version never changes.
    static let migrations = [
        Migration(oldest: 1, statements: first), Migration(oldest: 2, statements: second),
        Migration(oldest: 2, statements: third),
    ]

    /// The columns by which nodes of different versions share the database, the node with the duties, and the state of
    /// the calls that other nodes continue.
    private static let third = [
        // The first version with nodes compares the highest `version` with its own schema. So `version` keeps the oldest
        // schema whose programs can use the database. The column `number` has the number of the schema.
        "ALTER TABLE sippushd_schema ADD COLUMN number bigint",
        // The program of a node: valid only if `described_run` is the present run, because an older program leaves the
        // columns alone.
        """
        ALTER TABLE node ADD COLUMN version text, ADD COLUMN schema_number bigint, ADD COLUMN described_run bigint
        """,
        """
        -- The run of the node that does what one node must do for all nodes.
        CREATE TABLE duty (
            name text PRIMARY KEY,
            run bigint NOT NULL
        )
        """,
        // The changes of a call since its INVITE, as in the call journal.
        "ALTER TABLE held_call ADD COLUMN changes bytea NOT NULL DEFAULT ''",
    ]

    /// The tables of a cluster, and the indexes by which a node reads one user.
    private static let second = [
        "CREATE INDEX binding_user ON binding (domain, username)",
        "CREATE INDEX bucket_entry_user ON bucket_entry (domain, username)",
        // The node that has a stored message in memory; each connection of a node knows the node's name.
        "ALTER TABLE message ADD COLUMN node text DEFAULT nullif(current_setting('sippushd.node', true), '')",
        // Each start of a node has its own number.
        "CREATE SEQUENCE node_run",
        """
        CREATE TABLE node (
            name text PRIMARY KEY,
            place text NOT NULL,            -- HOST:PORT for other nodes
            run bigint NOT NULL,
            seen timestamptz NOT NULL
        )
        """,
        """
        -- The users for whose phones something waits at a node. The nodes look by themselves for phones that have
        -- returned, so the table may lose its rows in a crash.
        CREATE UNLOGGED TABLE waiting (
            domain bytea NOT NULL,
            username bytea NOT NULL,
            node text NOT NULL,
            PRIMARY KEY (domain, username, node)
        )
        """,
        """
        -- The INVITEs that wait at a node. Another node goes on with them after the end of the node.
        CREATE TABLE held_call (
            node text NOT NULL,
            username bytea NOT NULL,
            domain bytea NOT NULL,
            call_id bytea NOT NULL,
            request bytea NOT NULL,
            transport text NOT NULL,
            listener bigint NOT NULL,
            remote text NOT NULL,
            until bigint NOT NULL,
            PRIMARY KEY (node, domain, username, call_id)
        )
        """,
        """
        -- What the nodes have counted for limits in the last minute. The table may lose its rows in a crash.
        CREATE UNLOGGED TABLE told_count (
            run bigint NOT NULL,
            number bigint NOT NULL,         -- in the order of writing
            at timestamptz NOT NULL,
            counts bytea NOT NULL,
            PRIMARY KEY (run, number)
        )
        """,
        """
        -- How often a table that each node keeps in memory has changed.
        CREATE TABLE revision (
            name text PRIMARY KEY,
            number bigint NOT NULL
        )
        """,
    ]

    private static let first = [
        """
        CREATE TABLE binding (
            id bigint PRIMARY KEY,
            username bytea NOT NULL,
            domain bytea NOT NULL,
            contact bytea NOT NULL,
            call_id bytea NOT NULL,
            cseq bigint NOT NULL,
            path bytea NOT NULL,            -- one value a line
            transport text NOT NULL,
            listener bigint NOT NULL,
            remote text NOT NULL,
            granted bigint NOT NULL,        -- seconds
            fresh_until bigint NOT NULL,
            registered_at bigint NOT NULL,
            is_push bigint NOT NULL,
            user_agent bytea NOT NULL,      -- of the last REGISTER, cut to 128 bytes
            nonce bigint NOT NULL,          -- that the phone may use again; 0: the phone is challenged
            nonce_count bigint NOT NULL
        )
        """,
        """
        CREATE TABLE bucket_entry (
            call_ref bigint PRIMARY KEY,
            username bytea NOT NULL,
            domain bytea NOT NULL,
            caller bytea NOT NULL,
            date bigint NOT NULL,
            devices text NOT NULL,          -- numbers of bindings, with commas
            is_over bigint NOT NULL,
            told text NOT NULL,             -- devices that have learnt of the call
            brought_by bigint NOT NULL      -- stands for whoever answers for the call, odd for trusted peers
        )
        """,
        """
        CREATE TABLE account (
            name bytea NOT NULL,
            realm bytea NOT NULL,
            ha1_md5 bytea,
            ha1_sha256 bytea,
            ha1_sha512_256 bytea,
            PRIMARY KEY (realm, name)
        )
        """,
        "CREATE TABLE provider_switch (name text PRIMARY KEY, enabled bigint NOT NULL)",
        "CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL)",
        """
        CREATE TABLE push_record (
            username bytea NOT NULL,
            domain bytea NOT NULL,
            call_id bytea NOT NULL,         -- empty for missed calls
            call_ref text,                  -- sixteen hexadecimal digits
            kind text NOT NULL,
            calls bigint NOT NULL,
            device bigint NOT NULL,         -- number of a binding, or 0
            requested_at bigint NOT NULL,
            omission text,                  -- why no push was sent
            app text COLLATE "C" NOT NULL,
            code text COLLATE "C",          -- apns-id
            delivery text NOT NULL,
            tries bigint NOT NULL,
            answer text,
            status bigint,                  -- HTTP
            reason text NOT NULL,
            dead_since bigint,
            provider_id bytea NOT NULL,
            -- Milliseconds after requested_at.
            sent bigint,
            answered bigint,
            registered bigint,
            invited bigint,
            rang bigint,
            ended bigint,
            ending text,
            ending_status bigint,           -- SIP
            -- When an app said first that the push was received, followed, read. NULL in read: the push counts in the
            -- badge; 0: the push is neither read nor does it count.
            received bigint,
            followed bigint,
            read bigint,
            sign text,                      -- what let the call out in place of a REGISTER
            source bytea NOT NULL,
            peer bytea NOT NULL,
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY    -- in the order of writing
        )
        """,
        "CREATE INDEX push_record_code ON push_record (code) WHERE code IS NOT NULL",
        "CREATE INDEX push_record_unread ON push_record (device, requested_at, code) WHERE read IS NULL",
        """
        -- Requests that were refused at once; each share has its number of rows.
        CREATE TABLE refused_request (
            share text NOT NULL,
            kind text NOT NULL,
            username bytea NOT NULL,
            domain bytea NOT NULL,
            peer bytea NOT NULL,
            source bytea NOT NULL,
            call_id bytea NOT NULL,
            requested_at bigint NOT NULL,
            refusal text NOT NULL,
            status bigint NOT NULL,
            reason text NOT NULL,
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY
        )
        """,
        """
        CREATE TABLE api_key (
            name text PRIMARY KEY,
            hash text NOT NULL,             -- SHA-256 of the key, hexadecimal
            scopes text NOT NULL,           -- names with commas
            created_at bigint NOT NULL,
            domains text NOT NULL           -- with commas; empty: the whole daemon
        )
        """,
        """
        CREATE TABLE dead_token (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            recorded_at bigint NOT NULL,
            since bigint NOT NULL,
            provider text NOT NULL,
            param bytea NOT NULL,
            token bytea NOT NULL,
            source text NOT NULL,           -- provider or feedback
            domain bytea NOT NULL
        )
        """,
        """
        -- Registrations and clean-ups of devices over HTTP. One that has ended keeps its outcome alone.
        CREATE TABLE device_request (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text NOT NULL UNIQUE,
            kind text NOT NULL,
            app text NOT NULL,
            username text NOT NULL,
            platform text NOT NULL,
            token text NOT NULL,
            is_tracked bigint NOT NULL,
            callback_url text NOT NULL,
            callback_signature text NOT NULL,
            callback_fields text NOT NULL,  -- a JSON object
            accepted_at bigint NOT NULL,
            finished_at bigint,
            failure text NOT NULL
        )
        """,
        """
        CREATE TABLE mobile_device (
            app text NOT NULL,
            username text NOT NULL,
            token text COLLATE "C" NOT NULL,
            PRIMARY KEY (app, username, token)
        )
        """,
        "CREATE INDEX mobile_device_token ON mobile_device (lower(token))",
        """
        CREATE TABLE mobile_app (
            name text PRIMARY KEY,
            id text NOT NULL UNIQUE,        -- MobileAppId
            org text NOT NULL,
            token_hash text NOT NULL,       -- SHA-256 of the ApiToken, hexadecimal
            username text NOT NULL,         -- {{user}} stands for the UserId
            apns_provider text NOT NULL,
            apns_param text,
            fcm_param text,
            created_at bigint NOT NULL
        )
        """,
        """
        CREATE TABLE secret (
            name text NOT NULL,
            created_at bigint NOT NULL,
            value bytea NOT NULL,
            PRIMARY KEY (name, created_at)
        )
        """,
        "CREATE TABLE dialog_renewal (digest bytea PRIMARY KEY, until bigint NOT NULL)",
        """
        CREATE TABLE message (
            id bigint PRIMARY KEY,
            username bytea NOT NULL,
            domain bytea NOT NULL,
            sender bytea NOT NULL,
            transport text NOT NULL,
            listener bigint NOT NULL,
            remote text NOT NULL,
            received_at bigint NOT NULL,
            expires_at bigint NOT NULL,
            devices text NOT NULL,          -- numbers of bindings, with commas; empty: for the next that comes
            request bytea NOT NULL
        )
        """,
        """
        -- The columns to_100 to longer are the classes of times that phones took, in milliseconds.
        CREATE TABLE wake_day (
            day bigint NOT NULL,            -- days since 1970 in UTC
            domain bytea NOT NULL,
            app text COLLATE "C" NOT NULL,
            system text COLLATE "C" NOT NULL,
            \(WakeColumns.names.map { "\($0) bigint NOT NULL" }.joined(separator: ",\n    ")),
            PRIMARY KEY (day, domain, app, system)
        )
        """,
        """
        CREATE TABLE user_rules (
            username bytea NOT NULL,
            domain bytea NOT NULL,
            rules text NOT NULL,            -- JSON
            PRIMARY KEY (domain, username)
        )
        """,
        """
        -- Links with which phones take accounts, each only once.
        CREATE TABLE provision_link (
            hash text PRIMARY KEY,          -- the SHA-256 of the token, in hexadecimal
            name bytea NOT NULL,
            realm bytea NOT NULL,
            domain bytea NOT NULL,
            created_at bigint NOT NULL,
            expires_at bigint NOT NULL,
            sets_password bigint NOT NULL,
            creator text NOT NULL,
            used_at bigint NOT NULL,        -- 0: unused
            used_from text NOT NULL
        )
        """,
        "CREATE INDEX provision_link_user ON provision_link (realm, name)",
    ]
}
