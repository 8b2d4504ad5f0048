import Addressing
package import Settings

/// Makes a configuration file from the answers to `sippushd init`. A setting that the operator did not answer has its
/// default.
package struct NewSettings: Sendable {
    /// Apple's signing key, and the topic of the app that its pushes wake.
    package struct Apple: Sendable {
        package var topic: String
        package var team: String
        package var keyID: String
        package var keyFile: String

        package init(topic: String, team: String, keyID: String, keyFile: String) {
            (self.topic, self.team, self.keyID, self.keyFile) = (topic, team, keyID, keyFile)
        }
    }

    /// The key file of Web Push, and the contact to which browsers' push services can write.
    package struct WebPush: Sendable {
        package var keyFile: String
        package var contact: String

        package init(keyFile: String, contact: String) { (self.keyFile, self.contact) = (keyFile, contact) }
    }

    /// A project at RuStore, and its service token.
    package struct RuStore: Sendable {
        package var project: String
        package var serviceToken: String

        package init(project: String, serviceToken: String) {
            (self.project, self.serviceToken) = (project, serviceToken)
        }
    }

    /// An app at Huawei, and its client secret.
    package struct Huawei: Sendable {
        package var app: String
        package var clientSecret: String

        package init(app: String, clientSecret: String) { (self.app, self.clientSecret) = (app, clientSecret) }
    }

    /// The operator's own push service (`push.http`).
    package struct OwnService: Sendable {
        /// The name of the app; phones send the name as `pn-param`.
        package var app: String
        package var url: String

        package init(app: String, url: String) { (self.app, self.url) = (app, url) }
    }

    package var domain: String
    /// The PBX: an address, or an address and a port.
    package var pbx: String?
    /// The certificate and key for phones that connect by TLS.
    package var certificate: (file: String, key: String)?
    package var apple: Apple?
    /// The file of Google's service account.
    package var googleAccount: String?
    package var webPush: WebPush?
    /// Whether the Acrobits push server wakes apps.
    package var hasAcrobits = false
    package var ruStore: RuStore?
    package var huawei: Huawei?
    package var ownService: OwnService?

    package init(domain: String) { self.domain = domain }

    /// Returns the text of the configuration file.
    ///
    /// - Throws: an error if the text for the PBX is not an address. Other wrong answers to the questions are found when
    ///   the configuration is read.
    package func yaml() throws(SettingComplaint) -> String {
        var text = """
            # Settings of sippushd, made by "sippushd init". Keys that are not here have their defaults:
            # man sippushd.yaml, or sippushd check-config --print-sample.
            domains: [\(YAMLText.scalar(domain))]

            """
        if let pbx {
            let peer = try Self.peer(pbx)
            text += """

                # The PBX: its calls need no password, and the calls of phones go to it.
                trusted: ["\(peer.trusted)"]
                upstream: "sip:\(peer.upstream)"

                """
        }
        if let certificate {
            text += """

                listen: ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060", "tls:0.0.0.0:5061"]
                tls:
                    cert-file: \(YAMLText.scalar(certificate.file))
                    key-file: \(YAMLText.scalar(certificate.key))

                """
        }
        let push = providers
        return push.isEmpty ? text : text + "\npush:\n" + push
    }

    /// The settings under `push`; empty if no provider was chosen.
    private var providers: String {
        var text = ""
        if let apple {
            text += """
                    apns:
                        enabled: true
                        topics: [\(YAMLText.scalar(apple.topic))]
                        team-id: \(YAMLText.scalar(apple.team))
                        key-id: \(YAMLText.scalar(apple.keyID))
                        key-file: \(YAMLText.scalar(apple.keyFile))

                """
        }
        if let googleAccount {
            text += """
                    fcm:
                        enabled: true
                        service-account-file: \(YAMLText.scalar(googleAccount))

                """
        }
        if let webPush {
            text += """
                    webpush:
                        enabled: true
                        vapid-key-file: \(YAMLText.scalar(webPush.keyFile))
                        vapid-contact: \(YAMLText.scalar(webPush.contact))

                """
        }
        if hasAcrobits {
            text += """
                    acrobits:
                        enabled: true

                """
        }
        if let ruStore {
            text += """
                    rustore:
                        enabled: true
                        project-id: \(YAMLText.scalar(ruStore.project))
                        service-token: \(YAMLText.scalar(ruStore.serviceToken))

                """
        }
        if let huawei {
            text += """
                    hms:
                        enabled: true
                        app-id: \(YAMLText.scalar(huawei.app))
                        client-secret: \(YAMLText.scalar(huawei.clientSecret))

                """
        }
        if let ownService {
            text += """
                    http:
                        enabled: true
                        apps:
                            \(YAMLText.scalar(ownService.app)):
                                url: \(YAMLText.scalar(ownService.url))
                                body: '\(Self.ownBody)'

                """
        }
        return text
    }

    /// The template of a push body that gives the app all facts about a call.
    private static let ownBody =
        #"{"to": "{{token}}", "kind": "{{type}}", "from": "{{caller}}", "name": "{{display-name}}", "call": "{{call-id}}", "sent": "{{sent}}", "ttl": "{{ttl}}"}"#

    /// Returns the values of the settings `trusted` and `upstream`. For a PBX on this machine, `trusted` includes the
    /// port, because phones may share the PBX's address.
    private static func peer(_ text: String) throws(SettingComplaint) -> (trusted: String, upstream: String) {
        if let address = IPAddress(text) { return ("\(address)", "\(Endpoint(address, 5060))") }
        guard let endpoint = Endpoint(text), endpoint.port > 0 else {
            throw SettingComplaint(
                "the PBX needs an IP address, or address:port with IPv6 in brackets; found \"\(text)\"")
        }
        let isHere = [IPAddress.loopbackV4, IPAddress("::1")].contains(endpoint.address)
        return (isHere ? "\(endpoint)" : "\(endpoint.address)", "\(endpoint)")
    }
}

extension DaemonSettings {
    /// The sample configuration file with every key, as the package installs it.
    package static var sample: String { sample(title: "Settings of sippushd") }
}
