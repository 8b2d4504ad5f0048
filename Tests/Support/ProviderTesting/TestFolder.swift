import Bytes
import Foundation
package import PushDelivery
import TestSupport

/// A folder with keys and other files for one test, removed at its end.
package struct TestFolder: Sendable {
    package let path: String

    package init(path: String) { self.path = path }

    /// Makes push settings that enable all providers, with one server for all.
    package func settings(_ url: String) throws -> PushSettings {
        try write(TestKeys.rfc7515P256, to: "key.p8")
        let account = [
            "type": "service_account", "project_id": "my-project", "private_key_id": "k1",
            "private_key": TestKeys.rsa2048,
            "client_email": "push@my-project.iam.gserviceaccount.com",
            "token_uri": "https://oauth2.googleapis.com/token",
        ]
        try JSONSerialization.data(withJSONObject: account).write(to: URL(fileURLWithPath: path + "/account.json"))
        var settings = PushSettings()
        settings.apns.enabled = true
        settings.apns.topics = ["com.example.phone"]
        settings.apns.teamID = "DEF123GHIJ"
        settings.apns.keyID = "ABC123DEFG"
        settings.apns.keyFile = path + "/key.p8"
        settings.apns.endpoint = url
        settings.fcm.enabled = true
        settings.fcm.serviceAccountFile = path + "/account.json"
        settings.fcm.endpoint = url
        settings.fcm.tokenEndpoint = url + "/token"
        return settings
    }

    private func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path + "/" + name))
    }
}

package func withFolder(_ body: (TestFolder) async throws -> Void) async throws {
    let folder = try TemporaryFolder()
    defer { folder.remove() }
    try await body(TestFolder(path: folder.path))
}

extension PushSettings {
    /// Enables all providers except Apple and Google, with one server for all.
    package mutating func addGateways(_ url: String, key: String) throws {
        webPush.enabled = true
        webPush.keyFile = key
        webPush.contact = "mailto:push@example.net"
        webPush.hosts = [try WebPushHost(parsing: String(url.drop { $0 != "/" }.dropFirst(2)))]
        acrobits.enabled = true
        acrobits.endpoint = url
    }
}

/// Makes a token in the provider's form; for Apple, zeros precede the given digits.
package func token(_ provider: PushProvider, _ prid: String) -> PushToken {
    guard provider == .apns else { return PushToken(provider: provider, param: .empty, prid: ByteString(prid)) }
    let parts = prid.split(separator: ":", maxSplits: 1)
    let digits = parts.first.map { String(repeating: "0", count: max(0, 64 - $0.utf8.count)) + $0 } ?? ""
    return PushToken(
        provider: provider, param: .empty, prid: ByteString(digits + parts.dropFirst().map { ":\($0)" }.joined()))
}
