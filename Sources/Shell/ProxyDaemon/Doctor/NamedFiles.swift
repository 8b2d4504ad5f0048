import FoundationEssentials
import HTTPServices
import ProxyRuntime
import PushDelivery
package import Reactor
import UserSources

/// A file or folder that the settings name.
package struct NamedFile: Hashable, Sendable {
    /// The key of the setting whose value is the file.
    package let key: String
    package let path: String
    package let wish: FileWish

    package init(key: String, path: String, wish: FileWish) {
        self.key = key
        self.path = path
        self.wish = wish
    }
}

extension DaemonSettings {
    /// Returns all files that the daemon reads or writes, without duplicates.
    package func namedFiles(settingsAt path: String) -> [NamedFile] {
        var files = [NamedFile(key: "--config", path: path, wish: .read)]
        func read(_ key: String, _ path: String?) {
            guard let path, !files.contains(where: { $0.path == path && $0.wish == .read }) else { return }
            files.append(NamedFile(key: key, path: path, wish: .read))
        }
        read("tls.cert-file", tls.certFile)
        read("tls.key-file", tls.keyFile)
        for (name, pair) in tls.certificates.sorted(by: { $0.key < $1.key }) {
            read("tls.certificates.\(name).cert-file", pair.certFile)
            read("tls.certificates.\(name).key-file", pair.keyFile)
        }
        read("tls.ca-file", tls.caFile)
        read("tls.client-ca-file", tls.clientCAFile)
        for (group, pair) in [("api", (api.certFile, api.keyFile)), ("admin", (admin.certFile, admin.keyFile))] {
            read("\(group).cert-file", pair.0)
            read("\(group).key-file", pair.1)
        }
        read("api.device-registration.webhook-ca-file", api.deviceRegistration.webhookAuthorityFile)
        for (name, source) in users.inOrder {
            read("users.sources.\(name).password-file", source.passwordFile)
            read("users.sources.\(name).secret-file", source.secretFile)
            read("users.sources.\(name).ca-file", source.caFile)
        }
        for (name, issuer) in bearer.inOrder {
            read("bearer.issuers.\(name).key-file", issuer.keyFile)
            read("bearer.issuers.\(name).ca-file", issuer.caFile)
        }
        read("postgresql.password-file", postgreSQL.passwordFile)
        read("cluster.cert-file", cluster.certFile)
        read("cluster.key-file", cluster.keyFile)
        read("cluster.ca-file", cluster.caFile)
        read("hep.password-file", hep.passwordFile)
        read("hep.ca-file", hep.caFile)
        for path in events.secretFiles { read("events.secret-files", path) }
        read("events.ca-file", events.authorityFile)
        for service in push.services where service.enabled {
            let group = "push.\(type(of: service).providers.first?.rawValue ?? "")"
            for file in service.files {
                switch file {
                case .signingKey(let path, let key): read("\(group): \(key)", path)
                case .certificate(let path, let key):
                    read("\(group): cert-file", path)
                    read("\(group): cert-key-file", key)
                case .authorities(let path): read("\(group): ca-file", path)
                case .serviceAccount(let path): read("\(group): service-account-file", path)
                }
            }
        }
        files.append(NamedFile(key: "store", path: Self.folder(of: store), wish: .fill))
        if FileManager.default.fileExists(atPath: store) {
            files.append(NamedFile(key: "store", path: store, wish: .write))
        }
        if let calls { files.append(NamedFile(key: "calls", path: calls, wish: .fill)) }
        if events.url != nil, let folder = events.folder {
            files.append(NamedFile(key: "events.folder", path: folder, wish: .fill))
        }
        files.append(NamedFile(key: "control", path: Self.folder(of: control), wish: .fill))
        return files
    }

    /// Returns the folder that contains the file at a path.
    static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}
