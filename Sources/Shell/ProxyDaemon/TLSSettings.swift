import HTTPServices
package import Settings

/// The settings under `tls`, for the certificates that the daemon presents and the authorities that it trusts.
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
            "The certificate with its chain, PEM, for tls and wss listeners, and for servers that ask for a client certificate. After SIGHUP, the daemon reads the certificate again."
        ),
        .path("key-file", \.keyFile, example: "/etc/sippushd/key.pem", "The certificate's private key, PEM."),
        .named(
            "certificates", \.certificates, exampleName: "example.org", example: .example,
            "Certificates for further host names. In the TLS handshake a phone gets the certificate for the host name that it asks for. The name of a settings group under `tls.certificates` is only a label."
        ),
        .path(
            "ca-file", \.caFile, example: "/etc/sippushd/servers-ca.pem",
            "The certificate authorities (PEM) that the daemon trusts when it connects to a SIP server over TLS. By default, the daemon trusts the system's authorities."
        ),
        .path(
            "client-ca-file", \.clientCAFile, example: "/etc/sippushd/peers-ca.pem",
            "The certificate authorities (PEM) of peers that authenticate by a client certificate. The setting `trusted` can list such a peer by a name in its certificate. Phones need no certificate."
        ),
    ]

    package func complaints() -> [SettingComplaint] { SettingComplaint.ofPair(certFile, keyFile) }
}

/// The settings of an additional certificate, for another host name.
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
        Setting.path("key-file", \.keyFile, "The private key of the certificate, PEM.").required(),
    ]
}
