import Bytes
import Registration

/// The columns and rows that a database returned to the query for one user.
struct UserRows: Hashable, Sendable {
    var columns: [String]
    var rows: [[[UInt8]?]]

    /// The maximum size in bytes of one value in a database's answer.
    static let longestValue = 2048
    /// The maximum size of a database's whole answer in bytes.
    static let longestAnswer = 64 << 10

    /// The answer about the user that the rows contain.
    var answer: UserAnswer {
        guard columns.contains(where: { Self.secrets.contains($0.lowercased()) }) else {
            return .away(missingColumns)
        }
        guard let row = rows.first else { return .unknown }
        guard rows.count == 1 else { return .unusable(.severalRows) }
        var secrets = UserSecrets()
        for (column, value) in zip(columns, row) {
            guard let value else { continue }
            guard value.count <= Self.longestValue else { return .unusable(.tooLong) }
            secrets.set(column.lowercased(), ByteString(value))
        }
        return .found(secrets)
    }

    /// The error for the operator about a query that returns no column with a secret. The error names all columns that
    /// the query returns.
    private var missingColumns: UserFault {
        let found = columns.isEmpty ? "none" : columns.joined(separator: ", ")
        return UserFault(
            "the query has no column password, ha1, ha1_sha256 or ha1_sha512_256; its columns: \(found)",
            cure: UserFault.noSecret.cure)
    }

    private static let secrets: Set<String> = [
        "password", "ha1", "ha1_md5", "md5_cred", "ha1_sha256", "ha1_sha512_256",
    ]
}

extension UserSecrets {
    /// Sets the field for the database column or JSON member `name`, and ignores unknown names.
    mutating func set(_ name: String, _ value: ByteString) {
        switch name {
        case "password": password = value
        case "ha1", "ha1_md5", "md5_cred": ha1[.md5] = value
        case "ha1_sha256": ha1[.sha256] = value
        case "ha1_sha512_256": ha1[.sha512_256] = value
        case "realm": realm = value
        case "username": self.name = value
        default: break
        }
    }
}
