import Bytes
import Control
import ProxyRuntime
import Registration

/// The rows of a CSV file of users. Each row is checked independently of other rows, but no user may occur in two rows.
struct UserTable {
    /// Why a row is refused, as a sentence without passwords and hashes.
    struct Refusal: Error, Hashable {
        let reason: String

        init(_ reason: String) { self.reason = reason }
    }

    enum Column: String {
        case user, domain, realm, password, ha1
        case ha1SHA256 = "ha1_sha256"
        case ha1SHA512 = "ha1_sha512_256"
        /// Kamailio's hash for a user name that contains the domain; the daemon does not need this hash.
        case ignored = "ha1b"

        /// Reads the name of a column, as this program or as Asterisk and Kamailio write it.
        init?(named name: String) {
            switch name.lowercased() {
            case "username", "name": self = .user
            case "md5_cred", "ha1_md5": self = .ha1
            case let other: self.init(rawValue: other)
            }
        }
    }

    /// The maximum number of rows in a file, because the line number of each user is kept in memory.
    static let rowLimit = 2_000_000
    private static let passwordLimit = 512

    private let columns: [Column]
    private let realms: UserRealms
    private let takesMD5: Bool
    private let hasher: PasswordHasher
    /// The line number of each user, by a hash of the user's name.
    private var lines: [Int: Int32] = [:]
    /// The number of users so far whose only hash is for MD5.
    private(set) var usersOfMD5 = 0

    /// - Parameters:
    ///   - head: the first line of the file, which names the columns.
    ///   - realms: the daemon's domains, and the realm of passwords.
    ///   - takesMD5: whether the daemon offers MD5.
    /// - Throws: an error if the columns are not the columns of a user file.
    init(head: [UInt8], realms: UserRealms, takesMD5: Bool) throws(Refusal) {
        let mark: [UInt8] = [0xef, 0xbb, 0xbf]
        var columns: [Column] = []
        for name in try Self.texts(head.starts(with: mark) ? Array(head.dropFirst(mark.count)) : head) {
            guard let column = Column(named: name) else {
                let hint = name.contains(";") || name.contains("\t") ? "; fields are separated by commas" : ""
                // The error does not show a first line without column names, because it may be a user with a password.
                throw Refusal(
                    "the first line must name the columns, such as user,domain,password: column \(columns.count + 1) is unknown\(hint)"
                )
            }
            guard column == .ignored || !columns.contains(column) else {
                throw Refusal("the column \(name) occurs twice")
            }
            columns.append(column)
        }
        guard columns.contains(.user), columns.contains(.password) || columns.contains(.ha1) else {
            throw Refusal("the first line must name the columns user, and password or ha1")
        }
        do throws(StartError) { hasher = try PasswordHasher() } catch { throw Refusal(error.description) }
        (self.columns, self.realms, self.takesMD5) = (columns, realms, takesMD5)
    }

    /// Reads the user in one row of the user file. The parameter `line` is the row's number in the file.
    mutating func user(_ row: [UInt8], line: Int) throws(Refusal) -> UserCredentials {
        guard lines.count < Self.rowLimit else {
            throw Refusal("a file may have at most \(Self.rowLimit) users; divide the file")
        }
        let texts = try Self.texts(row)
        guard texts.count == columns.count else {
            throw Refusal("expected \(columns.count) fields, found \(texts.count)")
        }
        let fields = Dictionary(zip(columns, texts), uniquingKeysWith: { first, _ in first })
        let (name, domain) = try place(fields)
        let credentials = try credentials(fields, name, domain, realms.realm(of: domain))
        guard credentials.isWellFormed else {
            throw Refusal(
                "the name is longer than \(UserCredentials.nameLimit) bytes, or contains / \\ or a control character")
        }
        let key = credentials.name.hashValue
        if let first = lines[key] { throw Refusal("\(credentials.name) is already in line \(first)") }
        lines[key] = Int32(clamping: line)
        if credentials.ha1SHA256 == nil { usersOfMD5 += 1 }
        return credentials
    }

    // MARK: Parts of a row

    /// Returns the name and the domain of the user. A user without a domain belongs to the daemon's first domain, as in
    /// all commands.
    private func place(_ fields: [Column: String]) throws(Refusal) -> (name: String, domain: String) {
        var name = SpreadsheetFormula.restored(fields[.user] ?? "")
        var domain = fields[.domain] ?? ""
        // The realm of an exported user is the domain, unless the daemon has one realm for all users.
        if domain.isEmpty, let realm = fields[.realm], known(realm) != nil { domain = realm }
        if domain.isEmpty, let at = name.lastIndex(of: "@") {
            domain = String(name[name.index(after: at)...])
            name = String(name[..<at])
        }
        guard !name.isEmpty else { throw Refusal("the user is empty") }
        guard !name.contains("@") else { throw Refusal("the user's name contains an @") }
        guard !SpreadsheetFormula.isFormula(name) else {
            throw Refusal("the user \"\(name)\" begins like the formula of a spreadsheet")
        }
        domain = domain.isEmpty ? realms.domains.first ?? "" : domain
        guard let known = self.known(domain) else {
            let domains = realms.domains.joined(separator: ", ")
            throw Refusal("\(domain) is not one of this daemon's domains (\(domains))")
        }
        return (name, known.lowercased())
    }

    /// Returns the daemon's domain with the given name, regardless of upper and lower case.
    private func known(_ domain: String) -> String? {
        realms.domains.first { $0.lowercased() == domain.lowercased() }
    }

    private func credentials(
        _ fields: [Column: String], _ name: String, _ domain: String, _ realm: Realm
    ) throws(Refusal) -> UserCredentials {
        let password = fields[.password] ?? ""
        let md5 = (fields[.ha1] ?? "").lowercased()
        guard password.isEmpty else {
            guard password.utf8.count <= Self.passwordLimit else {
                throw Refusal("the password has more than \(Self.passwordLimit) bytes")
            }
            let credentials = hasher.credentials(of: name, realm: realm, password: password)
            guard md5.isEmpty || md5 == credentials.ha1MD5 else {
                throw Refusal(
                    "the ha1 does not match the password for the realm \(realm.text); leave out one of the two")
            }
            return credentials
        }
        guard !md5.isEmpty else {
            throw Refusal(columns.contains(.ha1) ? "no password and no ha1" : "the password is empty")
        }
        let theirs = fields[.realm].flatMap { $0.isEmpty ? nil : $0 } ?? domain
        guard theirs == realm.text.string else {
            throw Refusal(
                "the ha1 is for the realm \(theirs), and the realm of \(domain) is \(realm.text): phones could not log in"
            )
        }
        let sha256 = try hash(fields, .ha1SHA256, .sha256)
        guard sha256 != nil || takesMD5 else {
            throw Refusal("the ha1 is for MD5 alone, which digest.algorithms leaves out")
        }
        guard UserCredentials.isHash(md5, .md5) else { throw Refusal("the ha1 is not 32 hexadecimal digits") }
        return UserCredentials(
            name: "\(name)@\(realm.account)", ha1MD5: md5, ha1SHA256: sha256,
            ha1SHA512_256: try hash(fields, .ha1SHA512, .sha512_256))
    }

    private func hash(
        _ fields: [Column: String], _ column: Column, _ algorithm: DigestAlgorithm
    ) throws(Refusal) -> String? {
        guard let text = fields[column], !text.isEmpty else { return nil }
        guard UserCredentials.isHash(text, algorithm) else {
            throw Refusal("\(column.rawValue) is not \(algorithm.digitCount) hexadecimal digits")
        }
        return text.lowercased()
    }

    /// Returns the fields of a line of the user file as texts.
    private static func texts(_ line: [UInt8]) throws(Refusal) -> [String] {
        let fields: [[UInt8]]
        do throws(CSV.Fault) { fields = try CSV.fields(of: line) } catch { throw Refusal(error.sentence) }
        var texts: [String] = []
        for field in fields {
            guard let text = String(validating: field, as: UTF8.self) else { throw Refusal("a field is not UTF-8") }
            guard !field.contains(0) else { throw Refusal("a field contains a NUL byte") }
            texts.append(text)
        }
        return texts
    }
}
