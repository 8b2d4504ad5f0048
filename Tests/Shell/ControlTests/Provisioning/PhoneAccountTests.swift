import Addressing
import Bytes
import Foundation
import HTTPSemantics
import HTTPServer
import ProxyPolicy
import Registration
import Testing

@testable import Control
@testable import HTTPServices

@Suite("Accounts for phones")
struct PhoneAccountTests {
    private func account(
        _ user: String = "bob", server: String = "sip:sip.example.net:5061;transport=tls", password: String? = nil
    ) throws -> PhoneAccount {
        PhoneAccount(
            user: ByteString(user), domain: ByteString("example.net"), realm: ByteString("the realm"),
            server: try #require(NextHop(server)),
            hashes: [(.sha256, ByteString("aa")), (.md5, ByteString("bb"))], password: password,
            apiURL: "https://push.example.net")
    }

    /// Reads the entries of Linphone's XML, as `section/name`. All entries must overwrite the app's values.
    private func entries(_ xml: String) throws -> [String: String] {
        var (entries, section) = ([String: String](), "")
        for line in xml.split(separator: "\n") {
            if let found = line.firstMatch(of: /<section name="([^"]+)">/) { section = String(found.1) }
            if let found = line.firstMatch(of: /<entry name="([^"]+)" overwrite="true">(.*)<\/entry>/) {
                entries["\(section)/\(found.1)"] = String(found.2)
            }
        }
        #expect(xml.split(separator: "<entry").count == entries.count + 1)
        return entries
    }

    @Test func `Linphone gets server, identity, hashes and leave to use pushes`() throws {
        let entries = try entries(account().linphone)
        #expect(entries["proxy_0/reg_proxy"] == "&lt;sip:sip.example.net:5061;transport=tls&gt;")
        #expect(entries["proxy_0/reg_route"] == entries["proxy_0/reg_proxy"])
        #expect(entries["proxy_0/reg_identity"] == "&lt;sip:bob@example.net&gt;")
        #expect(entries["proxy_0/push_notification_allowed"] == "1")
        #expect(entries["proxy_0/remote_push_notification_allowed"] == "1")
        #expect(entries["sip/default_proxy"] == "0" && entries["sip/verify_server_certs"] == "1")
        #expect(entries["misc/transient_provisioning"] == "1")
        for (number, algorithm, ha1) in [(0, "SHA-256", "aa"), (1, "MD5", "bb")] {
            let section = "auth_info_\(number)"
            #expect(entries["\(section)/username"] == "bob" && entries["\(section)/realm"] == "the realm")
            #expect(entries["\(section)/domain"] == "example.net")
            #expect(entries["\(section)/algorithm"] == algorithm && entries["\(section)/ha1"] == ha1)
            #expect(entries["\(section)/passwd"] == nil)
        }
    }

    @Test func `a new password reaches Linphone as hashes alone`() throws {
        #expect(try !account(password: "geheim").linphone.contains("geheim"))
    }

    @Test func `names cannot leave their place in the XML`() throws {
        let name = "a\"<b>&'\u{1}c d"
        let linphone = try account(name).linphone
        #expect(try entries(linphone)["auth_info_0/username"] == "a&quot;&lt;b&gt;&amp;&apos;c d")
        #expect(
            try entries(linphone)["proxy_0/reg_identity"] == "&lt;sip:a%22%3Cb%3E&amp;&apos;%01c%20d@example.net&gt;")
        #expect(try entries(linphone).count == entries(account().linphone).count)
        let xml = try #require(try account(name, password: "x").cloudSoftphone)
        #expect(xml.contains("<username>a&quot;&lt;b&gt;&amp;&apos;c d</username>"))
    }

    @Test func `Acrobits' apps get a password, TLS, and the addresses for push tokens`() throws {
        #expect(try account().cloudSoftphone == nil)
        let xml = try #require(try account(password: "geheim").cloudSoftphone)
        for line in [
            "<username>bob</username>", "<password>geheim</password>", "<host>example.net</host>",
            "<proxy>sip.example.net:5061</proxy>", "<transport>tls+sip:</transport>",
            "<pushTokenReporterUrl>https://push.example.net/v1/push-tokens</pushTokenReporterUrl>",
            "<title>bob@example.net</title>",
        ] {
            #expect(xml.contains(line), "\(line)")
        }
        #expect(xml.contains("username=%account[username]%@example.net&amp;password="))
        let plain = try account(server: "sip:192.0.2.1:5060", password: "x").cloudSoftphone
        #expect(plain?.contains("<transport>udp</transport>") == true)
    }

    @Test(arguments: [
        ([("X-Linphone-Provisioning", "1")], "", PhoneClient.linphone),
        ([("User-Agent", "LinphoneiOS/5.2 LinphoneSDK/5.3")], "", .linphone),
        ([("User-Agent", "Unknown")], "", .linphone),
        ([("User-Agent", "Unknown"), ("Accept", "*/*")], "", nil),
        ([("User-Agent", "CloudSoftphone/1.5.6")], "", .cloudSoftphone),
        ([("User-Agent", "any"), ("Accept", "*/*")], "?client=acrobits", .cloudSoftphone),
        ([("X-Linphone-Provisioning", "1")], "?client=acrobits", .cloudSoftphone),
        ([("X-Linphone-Provisioning", "1")], "?client=zoiper", nil),
        ([("User-Agent", "curl/8")], "", nil), ([], "", nil),
        ([("User-Agent", "WhatsApp/2.23 W")], "", nil),
        ([("User-Agent", "Mozilla/5.0"), ("Accept", "text/html,*/*")], "?client=linphone", nil),
        ([("X-Linphone-Provisioning", "1"), ("Sec-Purpose", "prefetch")], "", nil),
        ([("X-Linphone-Provisioning", "1"), ("Sec-Fetch-Mode", "navigate")], "", nil),
    ])
    func `only a GET of an app uses a link`(fields: [(String, String)], query: String, client: PhoneClient?) {
        func request(_ method: String) -> HTTPRequest {
            HTTPRequest(
                method: method, target: "/provision/x\(query)", fields: fields.map { HTTPField($0.0, $0.1) })
        }
        #expect(PhoneClient(request("GET")) == client)
        #expect(PhoneClient(request("HEAD")) == nil)
    }

    // MARK: The plan

    @Test func `the URL of links comes from the settings, or from the API's address with TLS`() throws {
        var plan = ProvisioningPlan()
        plan.domain = "example.net"
        #expect(throws: ServiceProblem.self) { try plan.url() }
        plan.endpoints = { [Endpoint(IPAddress(v4: 0xC000_0201), 8443)] }
        // Without TLS, others could read the account.
        #expect(throws: ServiceProblem.self) { try plan.url() }
        plan.usesTLS = true
        #expect(try plan.url().text == "https://example.net:8443")
        plan.host = "push.example.net"
        plan.endpoints = { [Endpoint(.anyV4, 443)] }
        #expect(try plan.url().text == "https://push.example.net")
        plan.host = "2001:db8::1"
        #expect(try plan.url().text == "https://[2001:db8::1]")
        plan.usesTLS = false
        plan.endpoints = { [Endpoint(.loopbackV4, 8088)] }
        #expect(try plan.url().text == "http://127.0.0.1:8088")
        plan.settings.url = "https://a.example/api/"
        #expect(try plan.url().text == "https://a.example/api")
    }

    @Test func `accounts name the TLS listener, or the server in the settings`() throws {
        var plan = ProvisioningPlan()
        plan.listeners = [(.udp, 5060), (.tcp, 5060), (.wss, 443)]
        func server() throws -> String {
            var account = try account()
            account = PhoneAccount(
                user: account.user, domain: account.domain, realm: account.realm,
                server: plan.server(for: ByteString("example.net")), hashes: [], password: nil, apiURL: "")
            return account.serverURI
        }
        #expect(try server() == "sip:example.net:5060;transport=tcp")
        plan.listeners.append((.tls, 5071))
        #expect(try server() == "sip:example.net:5071;transport=tls")
        plan.host = "sip.example.net"
        #expect(try server() == "sip:sip.example.net:5071;transport=tls")
        plan.settings.server = NextHop("sips:edge.example.net")
        #expect(try server() == "sips:edge.example.net")
    }

    @Test(arguments: [
        ("https://a.example", true), ("HTTPS://a.example:8443/x", true), ("http://127.0.0.1:1", true),
        ("http://[::1]:1", true), ("http://localhost", true), ("http://a.example", false),
        ("http://127.0.0.1.a.example", false), ("http://localhost.a.example", false),
    ])
    func `only https and loopback are safe`(text: String, isProtected: Bool) {
        #expect(ProvisioningURL(text)?.isProtected == isProtected)
    }

    @Test(arguments: [
        "", "a.example", "ftp://a.example", "https://", "https:///x", "https://u:p@a.example", "https://a.example?x",
        "https://a.example#x", "https://a b", "https://a:x", "https://a:70000", "https://[::1", "https://::1:80",
    ])
    func `other URLs are refused`(text: String) { #expect(ProvisioningURL(text) == nil) }

    @Test func `settings with plain HTTP need a word for it`() throws {
        var settings = ProvisioningSettings()
        settings.url = "http://push.example.net"
        #expect(!settings.complaints().isEmpty)
        settings.allowsPlainHTTP = true
        #expect(settings.complaints().isEmpty)
        settings.url = "push.example.net"
        #expect(!settings.complaints().isEmpty)
    }
}
