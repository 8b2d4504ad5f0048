import Glibc
import Testing

@testable import Settings

@Suite("Files that systemd passes")
struct CredentialTests {
    private struct Group: SettingsGroup {
        var file: String?

        static let schema: [Setting<Group>] = [.path("file", \.file, "A file.")]
    }

    private func file(_ text: String) throws -> String? {
        try Group(yaml: Array("file: \(text)".utf8), file: "settings").file
    }

    @Test func `a setting names one without its folder`() throws {
        // A process that systemd did not start uses the folder of the unit's credentials.
        #expect(try file("credential:key.pem") == "/run/credentials/sippushd.service/key.pem")
        #expect(try file("/etc/key.pem") == "/etc/key.pem")
        #expect(try file("credentials/key.pem") == "credentials/key.pem")
        #expect(Credential.text(of: "/run/credentials/sippushd.service/key.pem") == "credential:key.pem")
        #expect(Credential.text(of: "/etc/key.pem") == nil)
        #expect(Credential.isMissing("/run/credentials/sippushd.service/key.pem"))
        #expect(!Credential.isMissing("/no/such/key.pem"))
    }

    @Test(arguments: [
        "credential:", "credential:..", "credential:.", "credential:../../etc/shadow", "credential:a/b",
        "credential:a:b",
        "\"credential:a b\"", "\"credential:a\\nb\"", "credential:ä",
    ])
    func `a name that leads elsewhere is refused`(text: String) {
        #expect(throws: SettingsError.self) { _ = try file(text) }
    }
}
