import Registration
import Settings
import Testing

@Suite("Registrar settings")
struct RegistrarSettingsTests {
    @Test func `every key is read`() throws {
        let yaml = """
            default-expires: 10m
            min-expires: 30
            max-expires: 2h
            max-contacts: 3
            label: [instance]
            unsupported-push: ordinary
            announce-refresh: 10m
            """
        var expected = RegistrarSettings()
        expected.defaultExpiry = .seconds(600)
        expected.minExpiry = .seconds(30)
        expected.maxExpiry = .seconds(7200)
        expected.maxContacts = 3
        expected.labelSources = [.instance]
        expected.unsupportedPush = .ordinary
        expected.announcedRefresh = .seconds(600)
        #expect(try RegistrarSettings(yaml: Array(yaml.utf8), file: "x") == expected)
    }

    @Test(arguments: [
        "min-expires: 2h", "default-expires: 2d", "announce-refresh: 120", "label: [name]", "unsupported-push: 555",
        "max-contacts: 0", "{default-expires: 60, min-expires: 61}", "{default-expires: 180, refresh-push: 180}",
    ])
    func `contradictions are refused`(yaml: String) {
        #expect(throws: SettingsError.self) { try RegistrarSettings(yaml: Array(yaml.utf8), file: "x") }
    }

    @Test func `digest settings`() throws {
        let yaml = """
            realm: office
            algorithms: [SHA-512-256, MD5]
            nonce-lifetime: 5m
            nonce-memory: 2048
            allow-missing-qop: yes
            """
        var expected = DigestSettings()
        expected.realm = "office"
        expected.algorithms = [.sha512_256, .md5]
        expected.nonceLifetime = .seconds(300)
        expected.nonceMemory = 2048
        expected.allowsMissingQop = true
        #expect(try DigestSettings(yaml: Array(yaml.utf8), file: "x") == expected)
    }

    @Test(arguments: ["algorithms: []", "algorithms: [MD5, MD5]", "algorithms: [SHA-1]", "nonce-lifetime: 1s"])
    func `digest contradictions are refused`(yaml: String) {
        #expect(throws: SettingsError.self) { try DigestSettings(yaml: Array(yaml.utf8), file: "x") }
    }
}
