package import Addressing
import HTTPServer
package import ProxyCore
import Reactor
package import Settings

/// Where an HTTP service listens, and what it allows its clients.
package struct ServiceAccess {
    /// The name of its settings: `api` or `admin`.
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
    /// The limits of a listener that shares its loop with calls.
    static let ofServices = {
        var limits = HTTPListener.Limits()
        limits.connectionsPerSource = 64
        // So calls wait for one request at most.
        limits.requestsPerTurn = 1
        limits.turn = .connections
        return limits
    }()
}

/// The operators' routes over TCP; the control socket has the same.
package struct AdminSettings: SettingsGroup, Equatable {
    package var listen: [Endpoint] = []
    package var certFile: String?
    package var keyFile: String?

    package init() {}

    package static let schema: [Setting<AdminSettings>] = [
        .list(
            "listen", of: .httpEndpoint, \.listen, example: "[127.0.0.1:8089]",
            "Where the admin API listens: a list of address:port, others than those of api.listen. Empty: nowhere. Keys need the scope admin; limits are those of api."
        ),
        .path(
            "cert-file", \.certFile, example: "/etc/sippushd/admin-cert.pem",
            "The certificate with its chain, PEM; the admin API is then spoken over TLS. Read again on SIGHUP."),
        .path("key-file", \.keyFile, example: "/etc/sippushd/admin-key.pem", "The certificate's private key, PEM."),
    ]

    package func complaints() -> [SettingComplaint] { SettingComplaint.ofPair(certFile, keyFile) }

    /// Where the admin API listens. Its limits are those of the HTTP API.
    package func access(like api: ServiceAccess) -> ServiceAccess {
        ServiceAccess(
            name: "admin", listen: listen, certFile: certFile, keyFile: keyFile, limits: api.limits,
            wrongLoginsPerSource: api.wrongLoginsPerSource, wrongLoginsPerUser: api.wrongLoginsPerUser)
    }
}

extension SettingComplaint {
    /// A complaint unless both files are named, or neither.
    package static func ofPair(_ certFile: String?, _ keyFile: String?) -> [SettingComplaint] {
        switch (certFile, keyFile) {
        case (_?, nil): [SettingComplaint("expected key-file beside it", key: "cert-file")]
        case (nil, _?): [SettingComplaint("expected cert-file beside it", key: "key-file")]
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
