import PushDelivery
import Settings
import Testing

private func settings(_ yaml: String) throws(SettingsError) -> PushSettings {
    try PushSettings(yaml: Array(yaml.utf8), file: "push.yaml")
}

@Suite("Settings of push providers")
struct PushSettingsTests {
    @Test func `an empty file switches nothing on`() throws {
        let settings = try settings("")
        #expect(settings == PushSettings())
        #expect(settings.enabledProviders.isEmpty)
    }

    @Test func `a file with both providers is read`() throws {
        let settings = try settings(
            """
            apns:
              enabled: true
              topics: [com.example.phone]
              team-id: DEF123GHIJ
              key-id: ABC123DEFG
              key-file: /key.p8
              badge-type: number
              limits: { requests: 5 }
            fcm:
              enabled: true
              body-format: legacy
              server-key: secret
              endpoint: http://127.0.0.1:8080/
            request-timeout: 2s
            """)
        #expect(settings.enabledProviders == [.apns, .apnsDevelopment, .fcm])
        #expect(settings.apns.badgeType == .number)
        #expect(settings.pushLimits(of: .apnsDevelopment)?.requests == 5)
        #expect(settings.pushLimits(of: .fcm) == ProviderLimits())
        #expect(settings.baseURL(of: .fcm) == "http://127.0.0.1:8080")
        #expect(settings.requestTimeout == .seconds(2))
    }

    @Test(arguments: [
        "apns: { enabled: true }",
        "apns: { enabled: true, key-file: /k }",
        "apns: { enabled: true, cert-file: /c }",
        "apns: { enabled: true, key-file: /k, team-id: DEF123GHIJ, key-id: ABC123DEFG, cert-file: /c, cert-key-file: /k }",
        "fcm: { enabled: true }",
    ])
    func `a provider without its credential is refused`(yaml: String) {
        #expect(throws: SettingsError.self) { try settings(yaml) }
    }

    @Test func `each environment has its server, and another server counts for both`() {
        var settings = PushSettings()
        settings.apns.enabled = true
        settings.fcm.enabled = true
        #expect(settings.baseURL(of: .apns) == "https://api.push.apple.com")
        #expect(settings.baseURL(of: .apnsDevelopment) == "https://api.sandbox.push.apple.com")
        #expect(settings.baseURL(of: .fcm) == "https://fcm.googleapis.com")
        settings.apns.environment = .sandbox
        #expect(settings.baseURL(of: .apns) == "https://api.sandbox.push.apple.com")
        settings.apns.endpoint = "https://127.0.0.1:8443/"
        #expect(settings.baseURL(of: .apns) == "https://127.0.0.1:8443")
        #expect(settings.baseURL(of: .apnsDevelopment) == "https://127.0.0.1:8443")
        settings.apns.sandboxEndpoint = "https://127.0.0.1:9443"
        #expect(settings.baseURL(of: .apnsDevelopment) == "https://127.0.0.1:9443")
    }
}
