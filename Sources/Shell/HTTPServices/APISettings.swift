package import Addressing
package import HTTPServer
package import PushDelivery
package import Settings

/// The settings under `api`: the HTTP API for application servers and apps.
package struct APISettings: SettingsGroup, Equatable {
    package var listen: [Endpoint] = []
    package var certFile: String?
    package var keyFile: String?
    package var http = HTTPListener.Limits.ofServices
    package var deadTokenAge: Duration = .seconds(30 * 86_400)
    package var pushTokens = PushTokenSettings()
    package var mobileApps: [String: MobileAppSettings] = [:]
    package var deviceRegistration = DeviceRegistrationSettings()
    package var notifications = NotificationSettings()
    package var provisioning = ProvisioningSettings()

    package init() {}

    package static let schema: [Setting<APISettings>] = [
        .list(
            "listen", of: .httpEndpoint, \.listen, example: "[127.0.0.1:8088]",
            "The addresses of the HTTP API: a list of address:port. With an empty list, the API is off."),
        .path(
            "cert-file", \.certFile, example: "/etc/sippushd/api-cert.pem",
            "The certificate with its chain, PEM. If `cert-file` is set, the API uses TLS. After SIGHUP, the daemon reads the certificate again."
        ),
        .path("key-file", \.keyFile, example: "/etc/sippushd/api-key.pem", "The certificate's private key, PEM."),
        .integer(
            "connections", in: 1...100_000, \.http.connections,
            "The maximum number of connections to the HTTP API. If a further connection opens, the daemon closes the connection that has been idle longest."
        ),
        .integer(
            "connections-per-source", in: 1...100_000, \.http.connectionsPerSource,
            "The maximum number of connections to the HTTP API from one IPv4 address or IPv6 /64. The daemon closes further connections of the address. Raise `api.connections-per-source` if the API is behind a reverse proxy."
        ),
        .duration(
            "head-timeout", in: .seconds(1) ... .seconds(300), \.http.headTimeout,
            "The time within which the head of an HTTP request must arrive."),
        .duration(
            "body-timeout", in: .seconds(1) ... .seconds(3600), \.http.bodyTimeout,
            "The time within which the body of an HTTP request must arrive."),
        .duration(
            "idle-timeout", in: .seconds(1) ... .seconds(3600), \.http.idleTimeout,
            "How long an HTTP connection without a request stays open."),
        .duration(
            "dead-token-age", in: .seconds(3600) ... .seconds(3650 * 86_400), \.deadTokenAge,
            "How long the store keeps dead push tokens, which application servers can read."),
        .group("push-tokens", \.pushTokens, "Tokens that apps report over HTTP; docs/HTTP-API.md."),
        .named(
            "mobile-apps", \.mobileApps, exampleName: "shop",
            "Apps whose servers register devices over HTTP; docs/HTTP-API.md, Device registration."),
        .group(
            "device-registration", \.deviceRegistration,
            "Settings of device registration for all apps in `api.mobile-apps`."),
        .group(
            "notifications", \.notifications,
            "Messages and silent pushes that application servers send; docs/HTTP-API.md, Notifications."),
        .group(
            "provisioning", \.provisioning,
            "Links and QR codes with which phones set up their accounts; docs/Provisioning.md."),
    ]

    package func complaints() -> [SettingComplaint] {
        var found = SettingComplaint.ofPair(certFile, keyFile)
        let ids = mobileApps.values.compactMap(\.id)
        if Set(ids).count != ids.count {
            found.append(SettingComplaint("expected each id once", key: "mobile-apps"))
        }
        return found
    }
}

/// The settings for push tokens that apps report over HTTP.
package struct PushTokenSettings: SettingsGroup, Hashable {
    package var provider = ReportedTokens.Form.acrobits

    package init() {}

    package static let schema: [Setting<PushTokenSettings>] = [
        .choice(
            "provider", \.provider,
            "Which service sends pushes to tokens that apps report over HTTP. With `acrobits`, Acrobits' push server sends the pushes, and gets the tokens unchanged (`push.acrobits`). With `direct`, this daemon sends the pushes to Apple and Google, and converts reported tokens to tokens of `push.apns` and `push.fcm`."
        )
    ]
}
