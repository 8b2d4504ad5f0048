package import Addressing
import HTTPServer
import ProxyCore
package import ProxyPolicy
import Reactor
package import Settings

/// The addresses of an HTTP service, and the limits for its clients.
package struct ServiceAccess {
    /// The name of the settings group of the HTTP service: `api` or `admin`.
    let name: String
    let listen: [Endpoint]
    let certFile: String?
    let keyFile: String?
    let limits: HTTPListener.Limits
    let wrongLoginsPerSource: Int
    let wrongLoginsPerUser: Int
}

extension APISettings {
    package func access(_ limits: LimitSettings) -> ServiceAccess {
        ServiceAccess(
            name: "api", listen: listen, certFile: certFile, keyFile: keyFile, limits: http,
            wrongLoginsPerSource: limits.wrongLoginsPerSource, wrongLoginsPerUser: limits.wrongLoginsPerUser)
    }
}

extension HTTPListener.Limits {
    /// The limits of an HTTP listener that shares its loop with calls.
    static let ofServices = {
        var limits = HTTPListener.Limits()
        limits.connectionsPerSource = 64
        // The loop handles SIP messages between two HTTP requests of a connection.
        limits.requestsPerTurn = 1
        limits.turn = .connections
        return limits
    }()
}

/// The settings under `admin`, for access over TCP to the operators' HTTP routes. The control socket offers the
/// operators' HTTP routes without the settings `admin`.
package struct AdminSettings: SettingsGroup, Equatable {
    package var listen: [Endpoint] = []
    package var certFile: String?
    package var keyFile: String?
    package var names: [String] = []

    package init() {}

    package static let schema: [Setting<AdminSettings>] = [
        .list(
            "listen", of: .httpEndpoint, \.listen, example: "[127.0.0.1:8089]",
            "The addresses of the admin API: a list of address:port, different from `api.listen`. With an empty list, the admin API is off. Requests to the admin API need a key with the scope `admin`, or `admin.read` for routes that only read. The limits in the group `api` also apply to the admin API. Browsers find the operators' web page under the same addresses; docs/Web-page.md."
        ),
        .list(
            "names", \.names, example: "[push.example.net]",
            "The host names under which operators' browsers reach the web page. IP addresses and localhost are always allowed. The daemon refuses other names, because a hostile site could direct its own name to this daemon."
        ).taken(.atOnce),
        .path(
            "cert-file", \.certFile, example: "/etc/sippushd/admin-cert.pem",
            "The certificate with its chain, PEM. If `cert-file` is set, the admin API uses TLS. After SIGHUP, the daemon reads the certificate again."
        ),
        .path("key-file", \.keyFile, example: "/etc/sippushd/admin-key.pem", "The certificate's private key, PEM."),
    ]

    package func complaints() -> [SettingComplaint] {
        var found = SettingComplaint.ofPair(certFile, keyFile)
        if names.contains(where: { PageGate.hostName($0) != $0.lowercased() }) {
            found.append(SettingComplaint("expected host names without a port", key: "names"))
        }
        return found
    }

    /// The addresses of the admin API, and the limits that it shares with the HTTP API.
    package func access(like api: ServiceAccess) -> ServiceAccess {
        ServiceAccess(
            name: "admin", listen: listen, certFile: certFile, keyFile: keyFile, limits: api.limits,
            wrongLoginsPerSource: api.wrongLoginsPerSource, wrongLoginsPerUser: api.wrongLoginsPerUser)
    }
}

extension SettingComplaint {
    /// A complaint if only one of certificate file and key file is set.
    package static func ofPair(_ certFile: String?, _ keyFile: String?) -> [SettingComplaint] {
        switch (certFile, keyFile) {
        case (_?, nil): [SettingComplaint("expected key-file as well", key: "cert-file")]
        case (nil, _?): [SettingComplaint("expected cert-file as well", key: "key-file")]
        case (nil, nil), (_?, _?): []
        }
    }
}

extension SettingType<Endpoint> {
    static let httpEndpoint = SettingType<Endpoint>.parsed("address:port") { text throws(SettingComplaint) in
        guard let endpoint = Endpoint(text) else {
            throw SettingComplaint("expected ADDRESS:PORT, IPv6 in brackets")
        }
        return endpoint
    } print: {
        $0.description
    }
}
