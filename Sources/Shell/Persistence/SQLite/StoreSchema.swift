/// The tables of the store, with times in milliseconds since 1970. Operators can read the tables with `sqlite3 FILE`.
///
/// Besides the keys, only the codes of pushes, unread pushes, the tokens of mobile apps, and the users of provisioning
/// links have an index in the store.
/// The running daemon looks up all other data in memory, and writes rows by their numbers.
enum StoreSchema {
    /// The letters "SPPD", by which `file` and other programs recognise a store.
    static let applicationID: Int32 = 0x5350_5044

    /// The scripts that migrate the schema, one script for each version. The SQL script of a released schema version
    /// never changes.
    static let scripts = [
        """
        CREATE TABLE binding (
            id INTEGER PRIMARY KEY,
            user TEXT NOT NULL,
            domain TEXT NOT NULL,
            contact TEXT NOT NULL,
            call_id TEXT NOT NULL,
            cseq INTEGER NOT NULL,
            path TEXT NOT NULL,             -- one value a line
            transport TEXT NOT NULL,
            listener INTEGER NOT NULL,
            remote TEXT NOT NULL,
            granted INTEGER NOT NULL,       -- seconds
            fresh_until INTEGER NOT NULL,
            registered_at INTEGER NOT NULL,
            is_push INTEGER NOT NULL
        ) STRICT;

        CREATE TABLE bucket_entry (
            call_ref TEXT PRIMARY KEY,      -- sixteen hexadecimal digits
            user TEXT NOT NULL,
            domain TEXT NOT NULL,
            caller TEXT NOT NULL,
            date INTEGER NOT NULL,
            devices TEXT NOT NULL,          -- numbers of bindings, with commas
            is_over INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE user (
            name TEXT NOT NULL,
            realm TEXT NOT NULL,
            ha1_md5 TEXT,
            ha1_sha256 TEXT,
            ha1_sha512_256 TEXT,
            PRIMARY KEY (realm, name)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE provider_switch (
            name TEXT PRIMARY KEY,
            enabled INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE meta (
            key TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
        """,
        """
        -- Numbers of bindings, with commas: devices that have learnt of the call.
        ALTER TABLE bucket_entry ADD COLUMN told TEXT NOT NULL DEFAULT '';

        CREATE TABLE push_record (
            id INTEGER PRIMARY KEY,         -- in the order of writing; the oldest are deleted first
            user TEXT NOT NULL,
            domain TEXT NOT NULL,
            call_id TEXT NOT NULL,          -- empty for missed calls
            call_ref TEXT,                  -- sixteen hexadecimal digits
            kind TEXT NOT NULL,             -- call or missed-calls
            calls INTEGER NOT NULL,
            device INTEGER NOT NULL,        -- number of a binding, or 0
            requested_at INTEGER NOT NULL,
            omission TEXT,                  -- why no push was sent
            app TEXT NOT NULL,
            code TEXT,                      -- apns-id
            delivery TEXT NOT NULL,
            tries INTEGER NOT NULL,
            answer TEXT,
            status INTEGER,                 -- HTTP
            reason TEXT NOT NULL,
            dead_since INTEGER,
            provider_id TEXT NOT NULL,
            -- Milliseconds after requested_at.
            sent INTEGER,
            answered INTEGER,
            registered INTEGER,
            invited INTEGER,
            rang INTEGER,
            ended INTEGER,
            ending TEXT,
            ending_status INTEGER           -- SIP
        ) STRICT;
        CREATE INDEX push_record_user ON push_record (user, domain);
        CREATE INDEX push_record_call ON push_record (call_id) WHERE call_id != '';
        """,
        """
        CREATE TABLE api_key (
            name TEXT PRIMARY KEY,
            hash TEXT NOT NULL,             -- SHA-256 of the key, hexadecimal
            scopes TEXT NOT NULL,           -- names with commas
            created_at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE dead_token (
            id INTEGER PRIMARY KEY AUTOINCREMENT,   -- clients remember it: none comes twice
            recorded_at INTEGER NOT NULL,
            since INTEGER NOT NULL,
            provider TEXT NOT NULL,
            param TEXT NOT NULL,
            token TEXT NOT NULL,
            source TEXT NOT NULL            -- provider or feedback
        ) STRICT;
        """,
        """
        -- Registrations and clean-ups of devices over HTTP. One that has ended keeps its outcome alone.
        CREATE TABLE device_request (
            number INTEGER PRIMARY KEY AUTOINCREMENT,   -- the order in which they came
            id TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,             -- registration or cleanup
            app TEXT NOT NULL,
            user TEXT NOT NULL,
            platform TEXT NOT NULL,         -- apns or fcm
            token TEXT NOT NULL,
            is_tracked INTEGER NOT NULL,
            callback_url TEXT NOT NULL,
            callback_signature TEXT NOT NULL,
            callback_fields TEXT NOT NULL,  -- a JSON object
            accepted_at INTEGER NOT NULL,
            finished_at INTEGER,
            failure TEXT NOT NULL
        ) STRICT;

        -- Devices that an app has registered over HTTP.
        CREATE TABLE mobile_device (
            app TEXT NOT NULL,
            user TEXT NOT NULL,
            token TEXT NOT NULL,
            PRIMARY KEY (app, user, token)
        ) STRICT, WITHOUT ROWID;
        """,
        """
        -- When an app said first that the push was received, followed, read. NULL in read: it counts in the badge; 0: it
        -- is neither read nor does it count.
        ALTER TABLE push_record ADD COLUMN received INTEGER;
        ALTER TABLE push_record ADD COLUMN followed INTEGER;
        ALTER TABLE push_record ADD COLUMN read INTEGER DEFAULT 0;
        CREATE INDEX push_record_code ON push_record (code) WHERE code IS NOT NULL;
        -- Holds all that the badges are made of.
        CREATE INDEX push_record_unread ON push_record (device, requested_at, code, kind, call_ref, read)
            WHERE read IS NULL;
        """,
        """
        -- Apps that may register devices, besides those of the settings.
        CREATE TABLE mobile_app (
            name TEXT PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,        -- MobileAppId
            org TEXT NOT NULL,
            token_hash TEXT NOT NULL,       -- SHA-256 of the ApiToken, hexadecimal
            user TEXT NOT NULL,             -- {{user}} stands for the UserId
            apns_provider TEXT NOT NULL,
            apns_param TEXT,
            fcm_param TEXT,
            created_at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """,
        """
        -- Keys that outlive the process; the newest of a name is used, older ones still open what they sealed.
        CREATE TABLE secret (
            name TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            value BLOB NOT NULL,
            PRIMARY KEY (name, created_at)
        ) STRICT, WITHOUT ROWID;

        -- Calls under way, one row for each device. What is left of it at a start are calls that the last run's end cut off.
        CREATE TABLE open_call (
            id INTEGER PRIMARY KEY,         -- the record's number, for as long as the daemon runs
            user TEXT NOT NULL,
            domain TEXT NOT NULL,
            call_id TEXT NOT NULL,
            call_ref TEXT,
            device INTEGER NOT NULL,
            requested_at INTEGER NOT NULL,
            omission TEXT,
            app TEXT NOT NULL,
            code TEXT
        ) STRICT;

        -- Dialogs whose traffic has moved the end of their lives.
        CREATE TABLE dialog_renewal (
            digest BLOB PRIMARY KEY,
            until INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """,
        """
        -- keep-alive, request or response: what let the call out in place of a REGISTER.
        ALTER TABLE push_record ADD COLUMN sign TEXT;
        """,
        """
        DROP INDEX push_record_user;
        DROP INDEX push_record_call;

        ALTER TABLE bucket_entry RENAME TO old_entry;
        CREATE TABLE bucket_entry (
            call_ref INTEGER PRIMARY KEY,   -- printf('%016x', call_ref) is what logs and lists show
            user TEXT NOT NULL,
            domain TEXT NOT NULL,
            caller TEXT NOT NULL,
            date INTEGER NOT NULL,
            devices TEXT NOT NULL,          -- numbers of bindings, with commas
            is_over INTEGER NOT NULL,
            told TEXT NOT NULL              -- devices that have learnt of the call
        ) STRICT;
        WITH RECURSIVE number (text, place, value) AS (
            SELECT call_ref, 1, 0 FROM old_entry
            UNION ALL
            SELECT text, place + 1, value << 4 | instr('0123456789abcdef', substr(text, place, 1)) - 1
            FROM number WHERE place <= 16
        )
        INSERT INTO bucket_entry
        SELECT value, user, domain, caller, date, devices, is_over, told
        FROM number JOIN old_entry ON call_ref = text
        WHERE place = 17 AND length(text) = 16 AND text NOT GLOB '*[^0-9a-f]*';
        DROP TABLE old_entry;
        """,
        """
        -- Messages whose senders were told that they are kept; each until the devices it is for have it.
        CREATE TABLE message (
            id INTEGER PRIMARY KEY,
            user TEXT NOT NULL,
            domain TEXT NOT NULL,
            sender TEXT NOT NULL,
            transport TEXT NOT NULL,
            listener INTEGER NOT NULL,
            remote TEXT NOT NULL,
            received_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            devices TEXT NOT NULL,          -- numbers of bindings, with commas; empty: for the next that comes
            request BLOB NOT NULL
        ) STRICT;
        """,
        """
        -- Of calls that phones make: where they came from, and whom they called.
        ALTER TABLE push_record ADD COLUMN source TEXT NOT NULL DEFAULT '';
        ALTER TABLE push_record ADD COLUMN peer TEXT NOT NULL DEFAULT '';

        -- Requests that were refused at once. Anybody can cause them: they have a table of their own, and each share has its
        -- number of rows there.
        CREATE TABLE refused_request (
            id INTEGER PRIMARY KEY,         -- in the order of writing
            share TEXT NOT NULL,            -- trusted, user or stranger
            kind TEXT NOT NULL,             -- call or register
            user TEXT NOT NULL,             -- who was called
            domain TEXT NOT NULL,
            peer TEXT NOT NULL,             -- From
            source TEXT NOT NULL,           -- address and port
            call_id TEXT NOT NULL,
            requested_at INTEGER NOT NULL,
            refusal TEXT NOT NULL,
            status INTEGER NOT NULL,        -- SIP
            reason TEXT NOT NULL
        ) STRICT;
        """,
        """
        -- By the token, in whatever case: several apps may have registered it.
        CREATE INDEX mobile_device_token ON mobile_device (token COLLATE NOCASE);
        """,
        """
        -- A number that stands for whoever answers for the call, odd for trusted peers; 0: an earlier version wrote the row.
        ALTER TABLE bucket_entry ADD COLUMN brought_by INTEGER NOT NULL DEFAULT 0;
        """,
        """
        -- The User-Agent of the phone's last REGISTER, cut to 128 bytes; empty where there was none.
        ALTER TABLE binding ADD COLUMN user_agent TEXT NOT NULL DEFAULT '';
        """,
        """
        -- Calls under way stand in the journal alone.
        DROP TABLE open_call;
        """,
        """
        -- The nonce that the phone may use again, and how often it was used at most. 0: the phone is challenged.
        ALTER TABLE binding ADD COLUMN nonce INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE binding ADD COLUMN nonce_count INTEGER NOT NULL DEFAULT 0;
        """,
        """
        -- The domains that the key may reach, with commas; empty: the whole daemon.
        ALTER TABLE api_key ADD COLUMN domains TEXT NOT NULL DEFAULT '';
        -- The domain of the user whose contact had the token; empty: an earlier version wrote the row.
        ALTER TABLE dead_token ADD COLUMN domain TEXT NOT NULL DEFAULT '';
        """,
        """
        -- What became of phones after providers had accepted pushes about calls, in numbers of pushes.
        CREATE TABLE wake_day (
            day INTEGER NOT NULL,           -- days since 1970 in UTC
            domain TEXT NOT NULL,
            app TEXT NOT NULL,              -- the provider, or provider/name
            system TEXT NOT NULL,           -- iOS, Android or other
            never INTEGER NOT NULL,
            caller_gave_up INTEGER NOT NULL,
            ended_otherwise INTEGER NOT NULL,
            -- Phones that came, by the milliseconds from the request of the push; each column has the times above the
            -- column before.
            to_100 INTEGER NOT NULL,
            to_200 INTEGER NOT NULL,
            to_300 INTEGER NOT NULL,
            to_400 INTEGER NOT NULL,
            to_500 INTEGER NOT NULL,
            to_630 INTEGER NOT NULL,
            to_800 INTEGER NOT NULL,
            to_1000 INTEGER NOT NULL,
            to_1250 INTEGER NOT NULL,
            to_1600 INTEGER NOT NULL,
            to_2000 INTEGER NOT NULL,
            to_2500 INTEGER NOT NULL,
            to_3000 INTEGER NOT NULL,
            to_4000 INTEGER NOT NULL,
            to_5000 INTEGER NOT NULL,
            to_6300 INTEGER NOT NULL,
            to_8000 INTEGER NOT NULL,
            to_10000 INTEGER NOT NULL,
            to_12500 INTEGER NOT NULL,
            to_16000 INTEGER NOT NULL,
            to_20000 INTEGER NOT NULL,
            to_25000 INTEGER NOT NULL,
            to_30000 INTEGER NOT NULL,
            to_40000 INTEGER NOT NULL,
            to_50000 INTEGER NOT NULL,
            to_60000 INTEGER NOT NULL,
            longer INTEGER NOT NULL,
            PRIMARY KEY (day, domain, app, system)
        ) STRICT, WITHOUT ROWID;
        """,
        """
        -- Which devices of a user ring later than others, and when none rings.
        CREATE TABLE user_rules (
            user TEXT NOT NULL,
            domain TEXT NOT NULL,
            rules TEXT NOT NULL,            -- JSON
            PRIMARY KEY (domain, user)
        ) STRICT, WITHOUT ROWID;
        """,
        """
        -- Links with which phones take accounts, each only once.
        CREATE TABLE provision_link (
            hash TEXT PRIMARY KEY,          -- the SHA-256 of the token, in hexadecimal
            name TEXT NOT NULL,             -- name and realm of the user, as in the table user
            realm TEXT NOT NULL,
            domain TEXT NOT NULL,           -- the domain of the account
            created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            sets_password INTEGER NOT NULL, -- 1: the user gets a new password when the link is used
            creator TEXT NOT NULL,          -- the name of the key
            used_at INTEGER NOT NULL,       -- 0: unused
            used_from TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX provision_link_user ON provision_link (realm, name);
        """,
    ]
}
