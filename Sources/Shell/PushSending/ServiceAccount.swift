import Crypto
import HTTPClient
import HTTPSemantics
import JSON
import PushDelivery
import Settings
import Timekeeping

/// A Google service account from its file; the key in the file signs requests for access tokens (RFC 7523, JWT bearer
/// grant).
package struct ServiceAccount {
    /// The contents of the service account's file.
    let content: [UInt8]
    let projectID: String?
    private let email: String
    private let keyID: String
    private let tokenURI: String
    private let key: ProviderKey

    private static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    private static let fileLimit = 64 << 10
    package init(file path: String) throws(PushSetupError) {
        let file: JSONValue
        do {
            content = try SettingsFile.bytes(at: path, limit: Self.fileLimit)
            file = try JSONValue(content)
        } catch let error as SettingsError {
            throw PushSetupError(error.description)
        } catch {
            throw PushSetupError("\(path): \(error)")
        }
        func text(_ key: String) throws(PushSetupError) -> String {
            guard let text = file[key]?.string, !text.isEmpty else {
                throw PushSetupError("\(path): not a service-account file: \"\(key)\" is missing")
            }
            return text
        }
        email = try text("client_email")
        keyID = try text("private_key_id")
        tokenURI = try text("token_uri")
        projectID = file["project_id"]?.string
        let pem = PEM.bytes(Array(try text("private_key").utf8))
        do throws(CryptoError) {
            key = try ProviderKey(pem, for: .rs256)
        } catch {
            throw PushSetupError("\(path): private_key: \(error)")
        }
    }

    /// Returns the service accounts of all Firebase apps, by their files. An app without a project in the settings gets
    /// the project of its account.
    static func all(of settings: inout PushSettings) throws(PushSetupError) -> [String: ServiceAccount] {
        var accounts: [String: ServiceAccount] = [:]
        guard settings.fcm.enabled else { return accounts }
        func complete(_ app: inout FCMSettings) throws(PushSetupError) {
            guard app.enabled, app.bodyFormat == .v1 else { return }
            guard let file = app.serviceAccountFile else {
                throw PushSetupError("fcm: service-account-file is needed for body-format v1")
            }
            let account: ServiceAccount
            if let known = accounts[file] { account = known } else { account = try ServiceAccount(file: file) }
            accounts[file] = account
            if app.projectID == nil { app.projectID = account.projectID }
        }
        let first = settings.fcm
        try complete(&settings.fcm)
        for name in settings.fcm.apps.keys.sorted() {
            guard var app = settings.fcm.apps[name] else { continue }
            // An app with its own account but an inherited project gets the project in its account file.
            if app.serviceAccountFile != first.serviceAccountFile, app.projectID == first.projectID {
                app.projectID = nil
            }
            try complete(&app)
            settings.fcm.apps[name] = app
        }
        return accounts
    }

    /// Reads all service accounts again from changed settings and files. If an account file is unusable or for another
    /// project, `failed` gets a sentence, and the former account stays.
    static func all(
        of settings: inout PushSettings, after former: (settings: PushSettings, accounts: [String: ServiceAccount]),
        failed: (String) -> Void
    ) -> [String: ServiceAccount] {
        var accounts: [String: ServiceAccount] = [:]
        func renew(_ app: inout FCMSettings, _ old: FCMSettings?) {
            guard app.enabled, app.bodyFormat == .v1, let old, let oldFile = old.serviceAccountFile else { return }
            var problem: String?
            do throws(PushSetupError) {
                guard let file = app.serviceAccountFile else { throw PushSetupError("no service-account-file") }
                let account = try ServiceAccount(file: file)
                if app.projectID ?? account.projectID == old.projectID {
                    accounts[file] = account
                } else {
                    problem = "\(file): the account is for another project, which needs a restart"
                }
            } catch {
                problem = error.description
            }
            if let problem {
                failed(problem)
                app.serviceAccountFile = oldFile
                accounts[oldFile] = accounts[oldFile] ?? former.accounts[oldFile]
            }
            app.projectID = old.projectID
        }
        guard settings.fcm.enabled else { return accounts }
        let first = settings.fcm
        // An app with its own account must not use the project that it inherited from the first app.
        for (name, app) in settings.fcm.apps where app.serviceAccountFile != first.serviceAccountFile {
            if app.projectID == first.projectID { settings.fcm.apps[name]?.projectID = nil }
        }
        renew(&settings.fcm, former.settings.fcm)
        for name in settings.fcm.apps.keys.sorted() {
            guard var app = settings.fcm.apps[name] else { continue }
            renew(&app, former.settings.fcm.apps[name])
            settings.fcm.apps[name] = app
        }
        return accounts
    }

    /// Creates a request for an access token, for the token service of the account or for the given endpoint.
    func grantRequest(endpoint: String?, route: HTTPRoute?, now: UnixTime) throws(CryptoError) -> HTTPClientRequest {
        var header: [UInt8] = Array("{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":".utf8)
        header.append(jsonString: keyID)
        header += Array("}".utf8)
        var claims: [UInt8] = Array("{\"iss\":".utf8)
        claims.append(jsonString: email)
        claims += Array(",\"scope\":\"\(Self.scope)\",\"aud\":".utf8)
        claims.append(jsonString: tokenURI)
        claims += Array(",\"iat\":\(now.seconds),\"exp\":\(now.seconds + AccessGrant.longestLife)}".utf8)
        var body = Array("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=".utf8)
        body += try key.token(header: header, claims: claims)
        var request = HTTPClientRequest(
            method: "POST", url: endpoint ?? tokenURI,
            headers: [HTTPField("content-type", "application/x-www-form-urlencoded")], body: body)
        if let route { request.route = route }
        request.route.group = "oauth"
        return request
    }
}
