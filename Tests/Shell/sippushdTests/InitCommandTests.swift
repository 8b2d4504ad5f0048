import ProxyDaemon
import PushDelivery
import Settings
import Testing

@testable import sippushd

@Suite("Questions of init")
struct InitCommandTests {
    private func settings(_ answers: [String]) throws -> DaemonSettings {
        var rest = answers[...]
        let made = try InitQuestions.answers { _ in rest.popFirst() }
        #expect(rest.isEmpty)
        return try DaemonSettings(yaml: Array(try made.yaml().utf8), file: "made")
    }

    @Test func `the answers become settings`() throws {
        let found = try settings([
            "", "example.net", "192.0.2.10:5080", "/etc/c.pem", "/etc/k.pem", "/etc/key.p8", "com.example.phone",
            "DEF123GHIJ", "ABC123DEFG", "credential:firebase.json",
        ])
        #expect(found.domains == ["example.net"])
        #expect(found.trusted.map { "\($0)" }.count == 1)
        #expect(found.upstream != nil && found.listen.count == 3 && found.tls.certFile == "/etc/c.pem")
        #expect(found.tls.keyFile == "/etc/k.pem")
        let apple = found.push.apns
        #expect(apple.enabled && apple.topics == ["com.example.phone"])
        #expect(found.push.fcm.enabled)
    }

    @Test func `only the domain is needed`() throws {
        let found = try settings(["example.net", "", "", "", ""])
        #expect(found.domains == ["example.net"] && found.trusted.isEmpty && found.upstream == nil)
        #expect(found.listen == DaemonSettings().listen && found.push.enabledProviders.isEmpty)
    }

    @Test func `an end of the answers writes nothing`() {
        #expect(throws: Command.Failure.self) { _ = try settings(["example.net", ""]) }
    }

    @Test(arguments: ["pbx.example.net", "192.0.2.1:0", "::1:5060x", "a: b", "192.0.2.300"])
    func `a PBX that is no address is refused`(pbx: String) {
        #expect(throws: SettingComplaint.self) { _ = try settings(["example.net", pbx, "", "", ""]) }
    }

    @Test(arguments: [("::1", "::1"), ("[::1]:5090", "[::1]:5090"), ("2001:db8::1", "2001:db8::1")])
    func `a PBX over IPv6`(pbx: String, trusted: String) throws {
        var made = NewSettings(domain: "example.net")
        made.pbx = pbx
        #expect(try made.yaml().contains("trusted: [\"\(trusted)\"]"))
        _ = try DaemonSettings(yaml: Array(try made.yaml().utf8), file: "made")
    }

    @Test(arguments: ["a b", "x: y", "]", "a\nlisten: []", "\"", "{{x}}"])
    func `an answer cannot become another key`(domain: String) throws {
        let text = try NewSettings(domain: domain).yaml()
        let found = try? DaemonSettings(yaml: Array(text.utf8), file: "made")
        #expect(found == nil || (found?.domains == [domain] && found?.listen == DaemonSettings().listen))
    }
}
