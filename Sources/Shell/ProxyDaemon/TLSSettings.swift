import HTTPServices
package import Settings

/// TLS for SIP: what listeners show, and whom we believe.
package struct TLSSettings: SettingsGroup, Equatable {
    package var certFile: String?
    package var keyFile: String?
    package var certificates: [String: TLSCertificateSettings] = [:]
    package var caFile: String?
    package var clientCAFile: String?

    package init() {}

    package static let schema: [Setting<TLSSettings>] = [
        .path(
            "cert-file", \.certFile, example: "/etc/sippushd/cert.pem",
            "The certificate with its chain, PEM, for tls addresses under listen; also shown to servers that ask for one. Read again on SIGHUP."
        ),
        .path("key-file", \.keyFile, example: "/etc/sippushd/key.pem", "The certificate's private key, PEM."),
        .named(
            "certificates", \.certificates, exampleName: "example.org", example: .example,
            "Certificates for other names: a phone gets the one that is for the name it asks for. The name here says nothing."
        ),
        .path(
            "ca-file", \.caFile, example: "/etc/sippushd/servers-ca.pem",
            "The authorities that servers' certificates must come from; without it those of the system."),
        .path(
            "client-ca-file", \.clientCAFile, example: "/etc/sippushd/peers-ca.pem",
            "Authorities of client certificates: whoever connects with one from there is known by its names, and trusted may name it. Phones need none."
        ),
    ]

    package func complaints() -> [SettingComplaint] { SettingComplaint.ofPair(certFile, keyFile) }
}

/// One more certificate.
package struct TLSCertificateSettings: SettingsGroup, Equatable {
    package var certFile = ""
    package var keyFile = ""

    package init() {}

    static let example: TLSCertificateSettings = {
        var example = TLSCertificateSettings()
        example.certFile = "/etc/sippushd/example.org-cert.pem"
        example.keyFile = "/etc/sippushd/example.org-key.pem"
        return example
    }()

    package static let schema: [Setting<TLSCertificateSettings>] = [
        Setting.path("cert-file", \.certFile, "The certificate with its chain, PEM.").required(),
        Setting.path("key-file", \.keyFile, "Its private key, PEM.").required(),
    ]
}
