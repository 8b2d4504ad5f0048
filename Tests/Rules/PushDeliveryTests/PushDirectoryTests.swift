import Bytes
import PushDelivery
import Settings
import Testing

@Suite struct `Apps of the providers` {
    private func directory(_ yaml: String) throws -> (PushDirectory, (PushToken) -> String?) {
        let directory = PushDirectory(try PushSettings(yaml: Array(yaml.utf8), file: "f"))
        return (directory, { directory.app(for: $0).flatMap { directory[$0] }?.name })
    }

    private let aa = wellFormed.string

    private let yaml = """
        apns:
          enabled: true
          topics: [com.example.phone]
          team-id: AAAAAAAAAA
          key-id: BBBBBBBBBB
          key-file: /a.p8
          limits: {requests: 7}
          apps:
            second: {topics: [com.example.second], key-id: CCCCCCCCCC, key-file: /b.p8, payload: 10d}
            old: {topics: [com.example.old], key-file: ~, cert-file: /c.pem, cert-key-file: /k.pem}
            off: {topics: [com.example.off], enabled: false}
        fcm:
          enabled: true
          service-account-file: /f.json
          apps:
            second: {params: [second-project, "123456789012"], service-account-file: /g.json}
        """

    @Test func `are chosen by pn-param`() throws {
        let (_, name) = try directory(yaml)
        #expect(name(token(.apns, aa, param: "T.com.example.phone.voip")) == "apns")
        #expect(name(token(.apns, aa, param: "T.com.example.second.voip")) == "apns/second")
        #expect(name(token(.apnsDevelopment, aa, param: "T.com.example.second")) == "apns.dev/second")
        #expect(name(token(.apns, "\(aa):voip&\(aa):remote", param: "T.com.example.old.voip&remote")) == "apns/old")
        #expect(name(token(.fcm, param: "123456789012")) == "fcm/second")
        #expect(name(token(.fcm, param: "second-project")) == "fcm/second")
    }

    @Test(arguments: ["", "line1", "T.com.example.unknown", "T.com.example.off.voip"])
    func `without a listed parameter have no app if there are several`(param: String) throws {
        let (_, name) = try directory(yaml)
        #expect(name(token(.apns, aa, param: param)) == nil)
        #expect(name(token(.fcm, param: param)) == nil)
    }

    @Test(arguments: ["", "line1"])
    func `without a name are the only one`(param: String) throws {
        let (_, name) = try directory(
            """
            apns: {enabled: true, topics: [com.example.phone], key-file: /k, team-id: AAAAAAAAAA, key-id: BBBBBBBBBB}
            fcm: {enabled: true, service-account-file: /f.json}
            """)
        #expect(name(token(.apns, aa, param: param)) == "apns")
        #expect(name(token(.fcm, param: param)) == "fcm")
    }

    /// Tests tokens of any form, because earlier versions of the daemon have stored such tokens.
    @Test(arguments: ["/topics/all", "a b", "a&b", ""])
    func `have no token of another form`(prid: String) throws {
        let (_, name) = try directory(yaml)
        #expect(name(token(.fcm, prid, param: "second-project")) == nil)
        #expect(name(token(.apns, prid, param: "T.com.example.phone")) == nil)
    }

    @Test func `inherit the values that they do not set`() throws {
        let (directory, _) = try directory(yaml)
        let second = try #require(directory.apps.first { $0.name == "apns/second" })
        let settings = try #require(second.rules as? APNsApp).settings
        #expect(settings.teamID == "AAAAAAAAAA")
        #expect(settings.keyID == "CCCCCCCCCC")
        #expect(settings.payload == .tenDarts)
        #expect(second.limits.requests == 7)
        #expect(!directory.apps.contains { $0.name.hasSuffix("/off") })
    }

    @Test func `of a provider that is switched off do not exist`() throws {
        let (directory, name) = try directory("fcm: {enabled: true, service-account-file: /f}")
        #expect(directory.apps.map(\.name) == ["fcm"])
        #expect(name(token(.apns, aa)) == nil)
    }

    @Test func `are checked like the first`() {
        #expect(throws: SettingsError.self) {
            try directory(
                "apns: {enabled: true, key-file: /k, team-id: DEF123GHIJ, key-id: ABC123DEFG, apps: {b: {cert-file: /c}}}"
            )
        }
    }
}
