import Crypto
import PushDelivery
import Settings

/// Reads what the settings name beside themselves: keys, certificates and service accounts, as ``Daemon`` does at its start
/// and at its first push.
package enum SetupCheck {
    /// What is wrong, a line each: the place in the settings, the file, and why it cannot be used.
    package static func problems(of settings: DaemonSettings, in file: String) -> [String] {
        var check = Check(file: file)
        check.push(settings.push)
        check.listener(settings.api.certFile, settings.api.keyFile, "api")
        check.listener(settings.admin.certFile, settings.admin.keyFile, "admin")
        return check.found
    }

    private struct Check {
        let file: String
        private let document: YAMLNode?
        private(set) var found: [String] = []
        private var seen = Set<String>()

        init(file: String) {
            self.file = file
            document = (try? SettingsFile.bytes(at: file, limit: 1 << 20)).flatMap {
                try? YAMLNode.read($0, file: file)
            }
        }

        // MARK: What is read

        mutating func push(_ push: PushSettings) {
            if push.apns.enabled {
                for app in [push.apns] + push.apns.apps.values where app.enabled {
                    key(app.keyFile, "key-file")
                    certificate(app.certFile, app.certKeyFile, "cert-file")
                    authority(app.caFile)
                }
            }
            if push.fcm.enabled {
                for app in [push.fcm] + push.fcm.apps.values where app.enabled {
                    if app.bodyFormat == .v1 { account(app.serviceAccountFile) }
                    authority(app.caFile)
                }
            }
            if push.webPush.enabled {
                key(push.webPush.keyFile, "vapid-key-file")
                authority(push.webPush.caFile)
            }
            if push.acrobits.enabled { authority(push.acrobits.caFile) }
            if push.http.enabled {
                for app in push.http.apps.values {
                    certificate(app.certFile, app.certKeyFile, "cert-file")
                    authority(app.caFile)
                }
            }
        }

        mutating func listener(_ certificate: String?, _ key: String?, _ group: String) {
            guard let certificate, let key else { return }
            attempt(certificate, "\(group).cert-file") {
                _ = try TLSContext.server(certificate: .file(certificate), key: .file(key), protocols: ["http/1.1"])
            }
        }

        private mutating func key(_ path: String?, _ name: String) {
            guard let path else { return }
            attempt(path, name) { _ = try ProviderKey(.file(path), for: .es256) }
        }

        private mutating func account(_ path: String?) {
            guard let path else { return }
            attempt(path, "service-account-file") { _ = try ServiceAccount(file: path) }
        }

        private mutating func certificate(_ path: String?, _ key: String?, _ name: String) {
            guard let path else { return }
            attempt(path, name) { _ = try TLSContext.client(certificate: .file(path), key: .file(key ?? path)) }
        }

        private mutating func authority(_ path: String?) {
            guard let path else { return }
            attempt(path, "ca-file") { _ = try TLSContext.client(authority: .file(path)) }
        }

        // MARK: What is said

        /// Once for each file and key, however many apps name it.
        private mutating func attempt(_ path: String, _ name: String, _ body: () throws -> Void) {
            guard seen.insert("\(name) \(path)").inserted else { return }
            do {
                try body()
            } catch {
                let place = document.flatMap { Self.position(of: path, in: $0) }.map { "\(file):\($0)" } ?? file
                let words = "\(error)"
                found.append("\(place): \(name): \(words.contains(path) ? "" : "\(path): ")\(words)")
            }
        }

        /// Where the settings name the file.
        private static func position(of text: String, in node: YAMLNode) -> YAMLPosition? {
            if node.text == text { return node.position }
            for entry in node.entries ?? [] {
                if let place = position(of: text, in: entry.value) { return place }
            }
            for item in node.items ?? [] {
                if let place = position(of: text, in: item) { return place }
            }
            return nil
        }
    }
}
