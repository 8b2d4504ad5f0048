import Bytes

/// One table of the store, with its names in SQLite and in PostgreSQL. The columns have the same order in both.
struct CopiedTable: Sendable {
    let sqlite: String
    let postgreSQL: String
    let columns: [Column]
    /// The indices of the key's columns; a copy reads and writes the rows in the order of the key.
    let key: [Int]
    /// The column whose numbers the database itself gives to new rows; `nil` if the daemon numbers the rows.
    let numbered: Int?

    struct Column: Sendable {
        let sqlite: String
        let postgreSQL: String
        let kind: Kind
    }

    enum Kind: Character, Sendable {
        case integer = "i"
        /// A text that the daemon makes.
        case text = "t"
        /// Bytes from outside: TEXT in SQLite, `bytea` in PostgreSQL.
        case bytes = "b"
        /// BLOB in SQLite, `bytea` in PostgreSQL.
        case blob = "x"
    }

    /// Describes a table by words such as `user:b` for each column. The column `user` has another name in PostgreSQL,
    /// where `user` is a word of SQL.
    private init(_ name: String, _ words: String..., key: String, numbered: String? = nil) {
        sqlite = name
        postgreSQL = name == "user" ? "account" : name
        columns = words.flatMap { $0.split(separator: ",") }.map { word in
            let name = String(word.dropLast(2))
            guard let kind = word.last.flatMap(Kind.init) else { preconditionFailure("\(word) has no kind") }
            return Column(sqlite: name, postgreSQL: name == "user" ? "username" : name, kind: kind)
        }
        let names = columns.map(\.sqlite)
        self.key = key.split(separator: " ").compactMap { names.firstIndex(of: String($0)) }
        self.numbered = numbered.flatMap { names.firstIndex(of: $0) }
    }

    /// All tables, with the users' own data first.
    static let all = [
        CopiedTable("user", "name:b,realm:b,ha1_md5:b,ha1_sha256:b,ha1_sha512_256:b", key: "realm name"),
        CopiedTable(
            "binding",
            "id:i,user:b,domain:b,contact:b,call_id:b,cseq:i,path:b,transport:t,listener:i,remote:t,granted:i,fresh_until:i,registered_at:i,is_push:i,user_agent:b,nonce:i,nonce_count:i",
            key: "id"),
        CopiedTable("user_rules", "user:b,domain:b,rules:t", key: "domain user"),
        CopiedTable(
            "bucket_entry",
            "call_ref:i,user:b,domain:b,caller:b,date:i,devices:t,is_over:i,told:t,brought_by:i", key: "call_ref"),
        CopiedTable(
            "message",
            "id:i,user:b,domain:b,sender:b,transport:t,listener:i,remote:t,received_at:i,expires_at:i,devices:t,request:x",
            key: "id"),
        CopiedTable("provider_switch", "name:t,enabled:i", key: "name"),
        CopiedTable("api_key", "name:t,hash:t,scopes:t,created_at:i,domains:t", key: "name"),
        CopiedTable(
            "provision_link",
            "hash:t,name:b,realm:b,domain:b,created_at:i,expires_at:i,sets_password:i,creator:t,used_at:i,used_from:t",
            key: "hash"),
        CopiedTable(
            "mobile_app",
            "name:t,id:t,org:t,token_hash:t,user:t,apns_provider:t,apns_param:t,fcm_param:t,created_at:i", key: "name"),
        CopiedTable("mobile_device", "app:t,user:t,token:t", key: "app user token"),
        CopiedTable(
            "device_request",
            "number:i,id:t,kind:t,app:t,user:t,platform:t,token:t,is_tracked:i,callback_url:t,callback_signature:t,callback_fields:t,accepted_at:i,finished_at:i,failure:t",
            key: "number", numbered: "number"),
        CopiedTable(
            "dead_token", "id:i,recorded_at:i,since:i,provider:t,param:b,token:b,source:t,domain:b", key: "id",
            numbered: "id"),
        CopiedTable("secret", "name:t,created_at:i,value:x", key: "name created_at"),
        CopiedTable("dialog_renewal", "digest:x,until:i", key: "digest"),
        CopiedTable(
            "push_record",
            "id:i,user:b,domain:b,call_id:b,call_ref:t,kind:t,calls:i,device:i,requested_at:i,omission:t,app:t,code:t",
            "delivery:t,tries:i,answer:t,status:i,reason:t,dead_since:i,provider_id:b",
            "sent:i,answered:i,registered:i,invited:i,rang:i,ended:i,ending:t,ending_status:i",
            "received:i,followed:i,read:i,sign:t,source:b,peer:b",
            key: "id", numbered: "id"),
        CopiedTable(
            "refused_request",
            "id:i,share:t,kind:t,user:b,domain:b,peer:b,source:b,call_id:b,requested_at:i,refusal:t,status:i,reason:t",
            key: "id", numbered: "id"),
        CopiedTable(
            "wake_day",
            "day:i,domain:b,app:t,system:t,\(WakeColumns.names.map { $0 + ":i" }.joined(separator: ","))",
            key: "day domain app system"),
        CopiedTable("meta", "key:t,value:t", key: "key"),
    ]

    /// The keys of notes that belong to one database, and are not copied.
    static let ownNotes: Set<String> = ["store-id", StoreCopy.mark, "probe"]
}

/// A value of a copied row.
enum CopiedValue: Equatable {
    case null
    case integer(Int64)
    case bytes([UInt8])

    /// Appends a form of the value that is the same for both databases, for the comparison.
    func append(to out: inout [UInt8]) {
        switch self {
        case .null: out.append(0)
        case .integer(let number):
            out.append(1)
            out.append(big: UInt64(bitPattern: number))
        case .bytes(let bytes):
            out.append(2)
            out.append(big: UInt64(bytes.count))
            out += bytes
        }
    }
}

extension CopiedTable {
    /// Reads a row whose columns are those of the table.
    func values(of row: some StoredRow) -> [CopiedValue] {
        columns.indices.map { index in
            if row.isNull(index) { return .null }
            return columns[index].kind == .integer ? .integer(row.integer(index)) : .bytes(row.bytes(index))
        }
    }

    /// Binds values of the columns, beginning at the parameter with the given index.
    func bind(_ values: [CopiedValue], of columns: [Int], to statement: some SQLParameters, at first: Int = 1) {
        for (place, (value, column)) in zip(values, columns).enumerated() {
            switch value {
            case .null: statement.bindNull(first + place)
            case .integer(let number): statement.bind(first + place, integer: number)
            case .bytes(let bytes) where self.columns[column].kind == .blob:
                statement.bind(first + place, blob: bytes.span)
            case .bytes(let bytes): statement.bind(first + place, text: bytes.span)
            }
        }
    }
}
