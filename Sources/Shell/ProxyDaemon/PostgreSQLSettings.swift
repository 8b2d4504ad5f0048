import HTTPServices
package import Persistence
package import ProxyRuntime
package import Settings

/// The settings under `postgresql`: a PostgreSQL database as the store.
package struct PostgreSQLSettings: SettingsGroup, Equatable {
    package var connection: String?
    package var passwordFile: String?

    package init() {}

    package static let schema: [Setting<PostgreSQLSettings>] = [
        .value(
            "connection", \.connection, connectionType,
            example:
                "\"host=db1,db2 dbname=sippushd user=sippushd sslmode=verify-full sslrootcert=/etc/sippushd/ca.pem\"",
            "The database, as a connection string or URI of libpq. With several hosts, the daemon uses the first host that answers and accepts writes. Without connection, the store is the file in the setting store."
        ),
        .path(
            "password-file", \.passwordFile, example: "credential:postgresql",
            "The file with the password of the database user."),
    ]

    private static let connectionType = SettingType<String>.parsed("connection string") {
        text throws(SettingComplaint) in
        let login = text.firstRange(of: "://").map { text[$0.upperBound...].prefix { $0 != "@" && $0 != "/" } } ?? ""
        guard !text.contains("password="), !login.contains(":") || !text.contains("@") else {
            throw SettingComplaint("expected no password here: write it into the file of password-file")
        }
        do throws(StoreError) {
            _ = try PostgreSQLPlace(text)
        } catch {
            throw SettingComplaint(error.description)
        }
        return text
    } print: {
        $0
    }

    /// The maximum size of the password's file in bytes.
    static let longestPassword = 4096

    /// The password without the line end; `nil` if the settings name no file.
    fileprivate func password() throws(SettingsError) -> String? {
        guard let passwordFile else { return nil }
        let bytes = try SettingsFile.bytes(at: passwordFile, limit: Self.longestPassword)
        let end = bytes.lastIndex { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") } ?? -1
        return String(decoding: bytes[...end], as: UTF8.self)
    }
}

extension DaemonSettings {
    /// Where the settings put the store.
    ///
    /// - Throws: an error if the file with the database's password cannot be read.
    package func storePlace() throws(StartError) -> StorePlace {
        guard let connection = postgreSQL.connection else { return .file(store) }
        let password: String?
        do throws(SettingsError) {
            password = try postgreSQL.password()
        } catch {
            throw StartError("postgresql: \(error)")
        }
        do throws(StoreError) {
            var place = try PostgreSQLPlace(connection, password: password)
            place.node = cluster.node
            place.version = Version.current
            return .postgreSQL(place, beside: store)
        } catch {
            throw StartError(error)
        }
    }
}
