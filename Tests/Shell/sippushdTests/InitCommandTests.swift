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
            "DEF123GHIJ", "ABC123DEFG", "credential:firebase.json", "/etc/vapid.pem", "mailto:push@example.net",
            "maybe",
            "Yes", "shop", "rustore: token", "100123456", "'hms' secret", "https://push.example.net/wake/{{token}}",
            "broker",
        ])
        #expect(found.domains == ["example.net"])
        #expect(found.trusted.map { "\($0)" }.count == 1)
        #expect(found.upstream != nil && found.listen.count == 3 && found.tls.certFile == "/etc/c.pem")
        #expect(found.tls.keyFile == "/etc/k.pem")
        let apple = found.push.apns
        #expect(apple.enabled && apple.topics == ["com.example.phone"])
        #expect(found.push.fcm.enabled)
        #expect(found.push.webPush.enabled && found.push.webPush.keyFile == "/etc/vapid.pem")
        #expect(found.push.webPush.contact == "mailto:push@example.net")
        #expect(found.push.acrobits.enabled)
        #expect(found.push.ruStore.enabled && found.push.ruStore.projectID == "shop")
        #expect(found.push.ruStore.serviceToken?.reveal() == "rustore: token")
        #expect(found.push.hms.enabled && found.push.hms.appID == "100123456")
        #expect(found.push.hms.clientSecret?.reveal() == "'hms' secret")
        #expect(found.push.http.enabled && found.push.http.apps.keys.sorted() == ["broker"])
        #expect(found.push.http.apps["broker"]?.body != nil)
    }

    @Test func `only the domain is needed`() throws {
        let found = try settings(["example.net"] + Array(repeating: "", count: 9))
        #expect(found.domains == ["example.net"] && found.trusted.isEmpty && found.upstream == nil)
        #expect(found.listen == DaemonSettings().listen && found.push.enabledProviders.isEmpty)
    }

    @Test func `an end of the answers writes nothing`() {
        #expect(throws: Command.Failure.self) { _ = try settings(["example.net", ""]) }
    }

    @Test(arguments: ["pbx.example.net", "192.0.2.1:0", "::1:5060x", "a: b", "192.0.2.300"])
    func `a PBX that is no address is refused`(pbx: String) {
        #expect(throws: SettingComplaint.self) {
            _ = try settings(["example.net", pbx] + Array(repeating: "", count: 8))
        }
    }

    @Test(arguments: ["a: b", "'", "x\n        fcm: {enabled: true}", "]"])
    func `the name and URL of an own service cannot become other keys`(word: String) throws {
        for (app, url) in [(word, "https://push.example.net/"), ("broker", word)] {
            var made = NewSettings(domain: "example.net")
            made.ownService = NewSettings.OwnService(app: app, url: url)
            let found = try? DaemonSettings(yaml: Array(try made.yaml().utf8), file: "made")
            #expect(found == nil || found?.push.enabledProviders.count == 1)
        }
    }

    @Test(arguments: ["a: b", "'", "x\n        fcm: {enabled: true}", "]", "credential:other", "#"])
    func `ids and secrets of RuStore and Huawei cannot become other keys`(word: String) throws {
        var made = NewSettings(domain: "example.net")
        made.ruStore = NewSettings.RuStore(project: "shop", serviceToken: word)
        made.huawei = NewSettings.Huawei(app: "100123456", clientSecret: word)
        let found = try? DaemonSettings(yaml: Array(try made.yaml().utf8), file: "made")
        #expect(found == nil || found?.push.enabledProviders == [.ruStore, .hms])
        made.ruStore?.project = word
        made.huawei?.app = word
        #expect(throws: (any Error).self) {
            try DaemonSettings(yaml: Array(try made.yaml().utf8), file: "made")
        }
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
