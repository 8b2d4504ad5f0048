import Crypto
import Foundation
import JSON

/// The sandbox's files with certificates and keys, which are created once and kept for later runs.
struct StateFiles {
    let certificate, certificateKey, apnsKey, accountKey: String
    /// The file with an app's certificate and key, which a client of Apple's feedback service must present.
    let appCertificate: String
    private let account: String

    init(folder: String) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        certificate = "\(folder)/ca.pem"
        certificateKey = "\(folder)/server-key.pem"
        apnsKey = "\(folder)/apns-key.p8"
        accountKey = "\(folder)/account-key.pem"
        appCertificate = "\(folder)/app-certificate.pem"
        account = "\(folder)/service-account.json"
        if !exists(certificate) || !exists(certificateKey) {
            let made = try SelfSignedCertificate(hosts: ["localhost", "127.0.0.1", "::1"])
            try write(made.certificate, to: certificate)
            try write(made.key, to: certificateKey)
        }
        // Any P-256 key can sign APNs tokens; the certificate made with it is not used.
        if !exists(apnsKey) { try write(SelfSignedCertificate(hosts: ["apns"]).key, to: apnsKey) }
        if !exists(accountKey) { try write(GeneratedKey.rsa(), to: accountKey) }
        if !exists(appCertificate) {
            let made = try SelfSignedCertificate(hosts: ["app"])
            try write(made.certificate + made.key, to: appCertificate)
        }
    }

    /// Writes a service account file in Google's format, which names the sandbox as the token service.
    func writeServiceAccount(tokenEndpoint: String) throws {
        let key = try String(contentsOfFile: accountKey, encoding: .utf8)
        let fields: JSONValue = [
            "type": "service_account", "project_id": "sandbox", "private_key_id": "sandbox",
            "private_key": .string(key), "client_email": "sippushd@sandbox.invalid",
            "token_uri": .string(tokenEndpoint),
        ]
        try write(fields.bytes, to: account)
    }

    private func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

    private func write(_ bytes: [UInt8], to path: String) throws {
        // The file is written under another name and then renamed. Because of the renaming, no reader sees an
        // incomplete file, and other users can never read a key.
        let part = path + ".part"
        guard
            FileManager.default.createFile(atPath: part, contents: Data(bytes), attributes: [.posixPermissions: 0o600])
        else { throw Complaint("cannot write \(part)") }
        if exists(path) { try FileManager.default.removeItem(atPath: path) }
        try FileManager.default.moveItem(atPath: part, toPath: path)
    }
}
