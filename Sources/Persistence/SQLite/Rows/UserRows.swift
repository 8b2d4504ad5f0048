import Bytes
import PushDelivery
import Registration
import Storage

/// Users for digest authentication as SQL, and which providers are switched off.
extension Connection {
    func write(_ user: DigestUser) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO user VALUES (?,?,?,?,?)")
        write.bind(1, text: user.name)
        write.bind(2, text: user.realm)
        for (index, algorithm) in DigestAlgorithm.columns.enumerated() {
            if let ha1 = user.ha1[algorithm] { write.bind(3 + index, text: ha1) } else { write.bindNull(3 + index) }
        }
        try write.run()
    }

    func removeUser(_ name: ByteString, realm: ByteString) throws(SQLError) {
        let delete = try statement("DELETE FROM user WHERE realm = ? AND name = ?")
        delete.bind(1, text: realm)
        delete.bind(2, text: name)
        try delete.run()
    }

    func users() throws(SQLError) -> [DigestUser] {
        try values(of: try statement("SELECT * FROM user")) { $0.storedUser }
    }

    /// `name@realm` of those that follow, by realm and name.
    func userNames(after name: ByteString, in realm: ByteString, limit: Int) throws(SQLError) -> [String] {
        let rows = try statement("SELECT name, realm FROM user WHERE (realm, name) > (?, ?) ORDER BY realm, name")
        rows.bind(1, text: realm)
        rows.bind(2, text: name)
        return try values(of: rows, limit: limit) { "\($0.text(0))@\($0.text(1))" }
    }

    func writeSwitch(_ provider: PushProvider, isOn: Bool) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO provider_switch VALUES (?, ?)")
        write.bind(1, text: provider.rawValue)
        write.bind(2, integer: isOn ? 1 : 0)
        try write.run()
    }

    func disabledProviders() throws(SQLError) -> [PushProvider] {
        let rows = try statement("SELECT name FROM provider_switch WHERE enabled = 0")
        return try values(of: rows) { PushProvider(rawValue: $0.text(0)) }
    }
}

extension Statement {
    fileprivate var storedUser: DigestUser {
        var ha1: [DigestAlgorithm: ByteString] = [:]
        for (index, algorithm) in DigestAlgorithm.columns.enumerated() where !isNull(2 + index) {
            ha1[algorithm] = byteString(2 + index)
        }
        return DigestUser(name: byteString(0), realm: byteString(1), ha1: ha1)
    }
}

extension DigestAlgorithm {
    /// In the order of the table's columns.
    fileprivate static let columns: [DigestAlgorithm] = [.md5, .sha256, .sha512_256]
}
