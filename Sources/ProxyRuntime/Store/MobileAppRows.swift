import Bytes
import SIPGrammar
import Storage
import Timekeeping

/// Mobile apps as SQL.
extension Connection {
    func write(_ app: StoredMobileApp) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO mobile_app VALUES (?,?,?,?,?,?,?,?,?)")
        write.bind(1, text: app.name)
        write.bind(2, text: app.settings.id ?? "")
        write.bind(3, text: app.settings.organisation ?? "")
        write.bind(4, text: Hex.encode(app.settings.tokenHashes.first ?? []).span)
        write.bind(5, text: app.settings.user.description)
        write.bind(6, text: app.settings.appleEnvironment.rawValue)
        for (index, param) in [(7, app.settings.appleParam), (8, app.settings.googleParam)] {
            if let param { write.bind(index, text: param) } else { write.bindNull(index) }
        }
        write.bind(9, integer: app.createdAt.milliseconds)
        try write.run()
    }
}

extension Statement {
    /// `nil` for a row that nobody of ours has written.
    var storedApp: StoredMobileApp? {
        guard let id = RequestID(text(1)), let hash = Hex.decode(bytes(3)), hash.count == 32,
            let user = UserTemplate(text(4)), let environment = AppleEnvironment(rawValue: text(5))
        else { return nil }
        var settings = MobileAppSettings()
        settings.id = id.text
        settings.organisation = text(2)
        settings.tokenHashes = [hash]
        settings.user = user
        settings.appleEnvironment = environment
        settings.appleParam = isNull(6) ? nil : text(6)
        settings.googleParam = isNull(7) ? nil : text(7)
        return StoredMobileApp(name: text(0), settings: settings, createdAt: UnixTime(milliseconds: integer(8)))
    }
}
