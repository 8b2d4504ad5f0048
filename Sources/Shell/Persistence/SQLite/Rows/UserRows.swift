import Bytes
import PushDelivery
import Registration
import Storage

/// The SQL statements for users with digest authentication, and for providers that are switched off.
extension Connection {
    func write(_ user: DigestUser) throws(SQLError) {
        try run(
            "INSERT OR REPLACE INTO user VALUES (?,?,?,?,?)", user.name, user.realm, user.ha1[.md5], user.ha1[.sha256],
            user.ha1[.sha512_256])
    }

    func removeUser(_ name: ByteString, realm: ByteString) throws(SQLError) {
        try run("DELETE FROM user WHERE realm = ? AND name = ?", realm, name)
    }

    func users() throws(SQLError) -> [DigestUser] {
        try values(of: try statement("SELECT * FROM user")) { $0.storedUser }
    }

    /// Returns the users after the given user, sorted by realm and name.
    func users(after name: ByteString, in realm: ByteString, limit: Int) throws(SQLError) -> [DigestUser] {
        let rows = try statement(
            "SELECT * FROM user WHERE (realm, name) > (?, ?) ORDER BY realm, name", with: realm, name)
        return try values(of: rows, limit: limit) { $0.storedUser }
    }

    /// Returns the names of the users after the given user as `name@realm`, sorted by realm and name. If `realms` is
    /// set, only users of the given realms are read.
    func userNames(
        after name: ByteString, in realm: ByteString, limit: Int, of realms: [ByteString]?
    ) throws(SQLError) -> [String] {
        guard let realms else {
            let rows = try statement(
                "SELECT name, realm FROM user WHERE (realm, name) > (?, ?) ORDER BY realm, name", with: realm, name)
            return try values(of: rows, limit: limit) { "\($0.text(0))@\($0.text(1))" }
        }
        var names: [String] = []
        // One read for each realm uses the table's key, so that users of other realms cost nothing.
        for own in Set(realms.map(\.string)).sorted() where names.count < limit && own >= realm.string {
            let rows = try statement(
                "SELECT name, realm FROM user WHERE realm = ? AND name > ? ORDER BY name", with: own,
                own == realm.string ? name : .empty)
            names += try values(of: rows, limit: limit - names.count) { "\($0.text(0))@\($0.text(1))" }
        }
        return names
    }

    func writeSwitch(_ provider: PushProvider, _ state: ProviderState) throws(SQLError) {
        try run("INSERT OR REPLACE INTO provider_switch VALUES (?, ?)", provider.rawValue, state.column)
    }

    func providers(_ state: ProviderState) throws(SQLError) -> [PushProvider] {
        let rows = try statement("SELECT name FROM provider_switch WHERE enabled = ?", with: state.column)
        return try values(of: rows) { PushProvider(rawValue: $0.text(0)) }
    }
}
