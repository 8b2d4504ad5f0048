import Addressing
import Bytes
import ProxyPolicy
import Registration

/// The account that a phone gets from a link.
struct PhoneAccount {
    let user: ByteString
    let domain: ByteString
    /// The text of the realm in challenges, with which the hashes were made.
    let realm: ByteString
    let server: NextHop
    /// The hashes of the password (HA1) that phones can use, the preferred algorithm first.
    let hashes: [(algorithm: DigestAlgorithm, ha1: ByteString)]
    /// The password; `nil` if the daemon has only its hashes.
    let password: String?
    /// The URL of the HTTP API, to which apps report push tokens.
    let apiURL: String

    /// The user's URI with a percent-encoded user part (RFC 3261 section 25.1).
    var identity: String {
        var escaped: [UInt8] = []
        for byte in user.string.utf8 {
            let isPlain = byte.isASCIIDigit || byte.isASCIILetter || "-_.!~*'()&=+$,;?/".utf8.contains(byte)
            if isPlain { escaped.append(byte) } else { escaped.append(percentEncoded: byte) }
        }
        return "sip:\(String(decoding: escaped, as: UTF8.self))@\(domain)"
    }

    /// The URI of the SIP server.
    var serverURI: String {
        var text = (server.isSecure ? "sips:" : "sip:") + serverPlace
        if let transport = server.transport { text += ";transport=\(transport.parameterName)" }
        return text
    }

    private var serverPlace: String { server.host.string + (server.port.map { ":\($0)" } ?? "") }

    // MARK: Linphone

    /// The account in the form of Linphone's remote provisioning. All entries overwrite the values that the app has.
    var linphone: String {
        var text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <config xmlns="http://www.linphone.org/xsds/lpconfig.xsd" \
            xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
            xsi:schemaLocation="http://www.linphone.org/xsds/lpconfig.xsd lpconfig.xsd">

            """
        // Without this entry, the app would fetch the link again at each start.
        text += Self.section("misc", [("transient_provisioning", "1")])
        text += Self.section("sip", [("default_proxy", "0"), ("verify_server_certs", "1"), ("verify_server_cn", "1")])
        text += Self.section(
            "proxy_0",
            [
                ("reg_proxy", "<\(serverURI)>"), ("reg_route", "<\(serverURI)>"), ("reg_identity", "<\(identity)>"),
                ("realm", realm.string), ("reg_sendregister", "1"), ("publish", "0"),
                ("push_notification_allowed", "1"), ("remote_push_notification_allowed", "1"),
            ])
        for (number, hash) in hashes.enumerated() {
            text += Self.section(
                "auth_info_\(number)",
                [
                    ("username", user.string), ("ha1", hash.ha1.string), ("realm", realm.string),
                    ("domain", domain.string), ("algorithm", hash.algorithm.rawValue),
                ])
        }
        return text + "</config>\n"
    }

    private static func section(_ name: String, _ entries: [(name: String, value: String)]) -> String {
        let lines = entries.map { entry in
            "    <entry name=\"\(entry.name)\" overwrite=\"true\">\(escaped(entry.value))</entry>\n"
        }
        return "  <section name=\"\(name)\">\n\(lines.joined())  </section>\n"
    }

    // MARK: Acrobits

    /// The account in the form of Acrobits' account XML; `nil` without a password, because these apps need a password
    /// instead of hashes.
    var cloudSoftphone: String? {
        guard let password else { return nil }
        let credentials = "username=%account[username]%&password=%account[password]%&selector=%selector%"
        let tokens = """
            {"username":"%account[username]%@\(domain)","password":"%account[password]%","selector":"%selector%",\
            "token_calls":"%pushTokenIncomingCall%","appId_calls":"%pushappid_incoming_call%",\
            "token_msgs":"%pushTokenOther%","appId_msgs":"%pushappid_other%"}
            """
        let transport =
            switch server.transport {
            case .tls, .wss: "tls+sip:"
            case .tcp, .ws: "tcp"
            case .udp, nil: server.isSecure ? "tls+sip:" : "udp"
            }
        let entries = [
            ("title", "\(user)@\(domain)"), ("username", user.string), ("password", password),
            ("host", domain.string), ("proxy", serverPlace), ("transport", transport),
            ("pushTokenReporterUrl", "\(apiURL)/v1/push-tokens"), ("pushTokenReporterPostData", tokens),
            ("pushTokenReporterContentType", "application/json"),
            (
                "accountRemovalReporterUrl",
                "\(apiURL)/v1/account-removals?" + credentials.replacing("%&password", with: "%@\(domain)&password")
            ),
        ]
        let lines = entries.map { "  <\($0.0)>\(Self.escaped($0.1))</\($0.0)>\n" }
        return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<account>\n\(lines.joined())</account>\n"
    }

    /// Escapes text for XML. Control characters, which XML does not allow, are left out.
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&apos;"
            case _ where scalar.value < 0x20 || scalar.value == 0x7f || scalar.value & 0xfffe == 0xfffe: break
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
