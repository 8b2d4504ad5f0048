-- A store as builds left it that called themselves 0.1.0 (schema 8): the user bob, with the password secret, his sleeping phone,
-- and a call that he has missed. etc/package-test upgrades from it. Only dates are of the day it is made.

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

-- When an app said first that the push was received, followed, read. NULL in read: it counts in the badge; 0: it
-- is neither read nor does it count.
ALTER TABLE push_record ADD COLUMN received INTEGER;
ALTER TABLE push_record ADD COLUMN followed INTEGER;
ALTER TABLE push_record ADD COLUMN read INTEGER DEFAULT 0;
CREATE INDEX push_record_code ON push_record (code) WHERE code IS NOT NULL;
-- Holds all that the badges are made of.
CREATE INDEX push_record_unread ON push_record (device, requested_at, code, kind, call_ref, read)
    WHERE read IS NULL;

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

-- keep-alive, request or response: what let the call out in place of a REGISTER.
ALTER TABLE push_record ADD COLUMN sign TEXT;

PRAGMA application_id = 1397772356;
PRAGMA user_version = 8;

INSERT INTO user VALUES ('bob', 'example.net', '9ea0e7b974be5095939ab2e6795f0159',
    '4db4fd7337d4fddd26f4c0d25bd068ad1021cb92f574b0566a577ad56f003504',
    '41d50a15ac9d3049a37fec5b62a16d568df9d0084d8ea5347219867b1b01e595');
INSERT INTO binding VALUES (1882917362380832769, 'bob', 'example.net',
    '<sip:bob@127.0.0.1:5070;transport=UDP;pn-provider=fcm;pn-param=proj;pn-prid=bob-token>', 'bob-token-3490///call', 2, '',
    'udp', 0, '127.0.0.1:5070', 3600, (unixepoch() - 3600) * 1000, (unixepoch() - 7200) * 1000, 1);
INSERT INTO bucket_entry VALUES ('47d9fb293519ad37', 'bob', 'example.net', '103', (unixepoch() - 1800) * 1000,
    '1882917362380832769', 1, '');
INSERT INTO push_record (id, user, domain, call_id, call_ref, kind, calls, device, requested_at, app, delivery, tries, answer, status, reason,
    provider_id, sent, answered, ended, ending)
VALUES (1, 'bob', 'example.net', '103-3535///call', '47d9fb293519ad37', 'call', 1, 1882917362380832769, (unixepoch() - 1800) * 1000,
    'fcm', 'finished', 1, 'accepted', 200, '', 'projects/sandbox/messages/1', 1, 1, 503, 'caller-gave-up');
INSERT INTO meta VALUES ('device-code-key', 'c472f3311d31464d4a93c26e87dd7faecc6123f80b9a40085fe7a524bd1aff7b');
INSERT INTO secret VALUES ('dialog-seal', (unixepoch() - 7200) * 1000, CAST(x'01' || randomblob(32) AS BLOB));
