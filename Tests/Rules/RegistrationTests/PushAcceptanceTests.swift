import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Settings
import Testing
import Timekeeping

private let webpush = "*;+sip.pns=\"webpush\";+sip.vapid=\"BCVxsr7N\""

private let apple = String(repeating: "a", count: 64)

private func acceptance(_ yaml: String) throws -> PushAcceptance {
    PushAcceptance(try PushSettings(yaml: Array(yaml.utf8), file: "push.yaml"))
}

private func makeRegistrar(
    _ unsupported: RegistrarSettings.UnsupportedPush = .reject, apns: String = "topics: []"
) throws -> Registrar {
    let yaml = """
        apns: { \(apns) }
        webpush: { hosts: [push.example.net] }
        http: { apps: { gateway: { url: https://gateway.example/ } } }
        """
    var registrar = Registrar(enabled: [.apns, .fcm, .webPush, .acrobits, .http])
    registrar.settings.push = try acceptance(yaml)
    registrar.settings.push.vapidKey = "BCVxsr7N"
    registrar.settings.unsupportedPush = unsupported
    return registrar
}

private func makeRestarted(at now: Moment) throws -> Registrar {
    var restarted = try makeRegistrar()
    restarted.advance(now.date - restarted.now.date)
    return restarted
}

private func contact(_ provider: String, _ prid: String, _ param: String = "") -> String {
    let escaped = ByteString(prid).array.map { byte in
        UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte ? String(Unicode.Scalar(byte)) : "%" + hex(byte)
    }.joined()
    return "<sip:bob@10.0.0.5;pn-provider=\(provider);pn-prid=\(escaped)"
        + (param.isEmpty ? ">" : ";pn-param=\(param)>")
}

private func hex(_ byte: UInt8) -> String {
    let digits = String(byte, radix: 16)
    return digits.count == 1 ? "0" + digits : digits
}

extension Registrar {
    /// The number of bob's devices that a push can wake.
    fileprivate var sleepers: Int { targets().count { if case .sleeping = $0.kind { true } else { false } } }
}

@Suite("Tokens that settings must know (RFC 8599 section 5.6.1, T12)")
struct PushAcceptanceTests {
    // MARK: Web push

    @Test func `a web push subscription at an allowed host makes a push contact, and the 200 has the key`() throws {
        var registrar = try makeRegistrar()
        for cseq in 1...3 {
            let reply = try registrar.register(contact("webpush", "https://push.example.net/s/1?x=y"), cseq: cseq)
            #expect(reply.status == 200)
            #expect(reply.featureCaps == [webpush])
        }
        let token = PushToken(provider: .webPush, param: .empty, prid: ByteString("https://push.example.net/s/1?x=y"))
        #expect(registrar.targets().map(\.kind) == [.sleeping(token)])
        // The registrar stores the contact like any other push contact, and restores it after a restart.
        registrar.advance(.seconds(100_000))
        let rows = registrar.rows(of: "bob")
        #expect(rows.count == 1)
        var restarted = try makeRestarted(at: registrar.now)
        #expect(restarted.restore(rows) == [true])
        #expect(restarted.targets().map(\.kind) == [.sleeping(token)])
    }

    @Test func `the answer to a query has the web push key, also together with pnsreg`() throws {
        var registrar = try makeRegistrar()
        #expect(try registrar.register("<sip:bob@10.0.0.5;pn-provider=webpush>").featureCaps == [webpush])
        registrar.settings.announcedRefresh = .seconds(130)
        let able = contact("webpush", "https://push.example.net/s") + ";+sip.pnsreg"
        #expect(try registrar.register(able, cseq: 2).featureCaps == [webpush + ";+sip.pnsreg=\"130\""])
        #expect(try registrar.register("<sip:bob@10.0.0.6;pn-provider>", cseq: 3).featureCaps.contains(webpush))
    }

    @Test(arguments: [
        "https://evil.example/", "http://push.example.net/", "https://push.example.net@evil.example/",
        "https://push.example.net:8443/", "https://127.0.0.1/", "x", "https://push.example.net/\r\n",
    ])
    func `a web push subscription at a host that is not allowed gets 555`(url: String) throws {
        var registrar = try makeRegistrar()
        let reply = try registrar.register(contact("webpush", url))
        #expect(reply.status == 555)
        #expect(!reply.featureCaps.contains(webpush))
        #expect(
            reply.rows.contains { $0.hasPrefix("Warning: 399 ") && $0.contains("not an https URL of a push service") })
        #expect(registrar.bindings().isEmpty)

        var lenient = try makeRegistrar(.ordinary)
        let taken = try lenient.register(contact("webpush", url))
        #expect(taken.status == 200 && taken.featureCaps.isEmpty)
        #expect(lenient.targets().map(\.kind) == [.ordinary])
        #expect(taken.facts.contains(.pushNotUsed(try #require(taken.refreshed.first), .unsupported(.webPushResource))))
    }

    // MARK: UnifiedPush

    private static let keys = String(repeating: "A", count: 87) + "." + String(repeating: "A", count: 22)

    private func chosen(_ number: Int, host: String? = nil) -> String {
        contact("webpush", "https://\(host ?? "up\(number).example")/\(number)", Self.keys)
            .replacing("10.0.0.5", with: "10.0.0.\(number)")
    }

    private func makeChoosing(_ unsupported: RegistrarSettings.UnsupportedPush = .reject) throws -> Registrar {
        var registrar = try makeRegistrar(unsupported)
        registrar.settings.push = try acceptance("webpush: { hosts: [push.example.net], any-host: true }")
        return registrar
    }

    @Test func `the devices of a user choose four push servers at most (T46.7)`() throws {
        var registrar = try makeChoosing()
        for number in 1...4 {
            #expect(try registrar.register(chosen(number), callID: "call-\(number)").status == 200)
        }
        let refused = try registrar.register(chosen(5), callID: "call-5")
        #expect(refused.status == 555)
        #expect(refused.rows.contains { $0.hasPrefix("Warning: 399 ") && $0.contains("four other push servers") })
        // A further device at a server that another device uses, and another user, are accepted.
        #expect(try registrar.register(chosen(6, host: "up1.example"), callID: "call-6").status == 200)
        #expect(try registrar.register(chosen(7), user: "carol", callID: "call-7").status == 200)
        // A listed host is not a host that a phone has chosen.
        #expect(try registrar.register(chosen(8, host: "push.example.net"), callID: "call-8").status == 200)
        // A device that moves to another server leaves its old one, and the number of servers stays the same.
        let moved = chosen(9).replacing("10.0.0.9", with: "10.0.0.2")
        #expect(try registrar.register(moved, callID: "call-2", cseq: 2).status == 200)
        #expect(try registrar.register(chosen(10), callID: "call-10").status == 555)
        #expect(try registrar.register(chosen(11, host: "up2.example"), callID: "call-11").status == 555)
        #expect(registrar.sleepers == 6)
        // A device that signs out makes room for one further server.
        #expect(try registrar.register(moved, expires: 0, callID: "call-2", cseq: 3).status == 200)
        #expect(try registrar.register(chosen(12), callID: "call-12").status == 200)
        #expect(try registrar.register(chosen(13), callID: "call-13").status == 555)
    }

    @Test func `several push servers in one REGISTER count together`() throws {
        var registrar = try makeChoosing(.ordinary)
        let reply = try registrar.register(chosen(1), chosen(2), chosen(3))
        #expect(reply.status == 200)
        let second = try registrar.register(chosen(4), chosen(5), callID: "call-2")
        #expect(second.status == 200)
        #expect(
            second.facts.contains {
                if case .pushNotUsed(_, .unsupported(.webPushHostCount)) = $0 { true } else { false }
            })
        #expect(registrar.sleepers == 4)
        // The fifth device is an ordinary contact, also after it refreshes and after a restart.
        #expect(try registrar.register(chosen(5), callID: "call-2", cseq: 2).status == 200)
        #expect(registrar.sleepers == 4)
        var restarted = try makeChoosing(.ordinary)
        #expect(restarted.restore(registrar.rows(of: "bob")).count == 5)
        #expect(restarted.sleepers == 4)
        #expect(try restarted.register(chosen(5), callID: "call-2", cseq: 3).status == 200)
        #expect(restarted.sleepers == 4)
        // A device that has signed out leaves its place to the fifth device.
        #expect(try restarted.register(chosen(1), expires: 0, cseq: 4).status == 200)
        #expect(try restarted.register(chosen(5), callID: "call-2", cseq: 4).status == 200)
        #expect(restarted.sleepers == 4)
    }

    @Test func `push servers count while web push is switched off`() throws {
        var registrar = Registrar(enabled: [.fcm])
        registrar.settings.push = try acceptance("webpush: { hosts: [push.example.net], any-host: true }")
        registrar.settings.unsupportedPush = .ordinary
        for number in 1...6 {
            #expect(try registrar.register(chosen(number), callID: "call-\(number)").status == 200)
        }
        #expect(registrar.sleepers == 0)
        var enabled = try makeChoosing()
        #expect(enabled.restore(registrar.rows(of: "bob")).count == 6)
        #expect(enabled.sleepers == 4)
    }

    @Test func `a device without keys gets 555, or becomes an ordinary contact`() throws {
        let bare = contact("webpush", "https://up.example/1")
        var registrar = try makeChoosing()
        let reply = try registrar.register(bare)
        #expect(reply.status == 555)
        #expect(reply.rows.contains { $0.contains("P256DH.AUTH") })
        var lenient = try makeChoosing(.ordinary)
        #expect(try lenient.register(bare).status == 200)
        #expect(lenient.targets().map(\.kind) == [.ordinary])
    }

    // MARK: Settings that have changed

    @Test(arguments: [
        ("webpush", "https://push.example.net/s", "", TokenProblem.webPushResource),
        ("http", "token", "gateway", .httpApp), ("fcm", "t:1", "other-project", .googleProject),
        ("apns", apple, "T.com.example.other.voip", .appleTopic), ("apns", apple, "", .appleParamMissing),
    ])
    func `a contact that is not valid any more is kept, reported at the start, and refused when it registers`(
        provider: String, prid: String, param: String, problem: TokenProblem
    ) throws {
        let name = contact(provider, prid, param)
        var registrar = try makeRegistrar(apns: "topics: [\(provider == "apns" && param.isEmpty ? "a" : "")]")
        #expect(try registrar.register(name).status == 200)
        let row = try #require(registrar.rows(of: "bob").first)

        var after = try makeRestarted(at: registrar.now)
        after.advance(.seconds(100_000))
        after.settings.push = try acceptance(
            "apns: { topics: [com.example.phone, b] }\nfcm: { params: [p] }\nwebpush: { hosts: [else.example] }")
        #expect(after.restored(row) == .unfit(problem))
        #expect(after.targets().map(\.canBeWoken) == [true])
        // After a change of the settings, the daemon checks an unchanged REGISTER again.
        let reply = try after.register(name, cseq: 2)
        #expect(reply.status == 555)
        #expect(reply.rows.contains { $0.hasPrefix("Warning: 399 ") && $0.contains("\(problem.sentence)") })
        // The phone can still remove the contact that the daemon no longer accepts.
        #expect(try after.register(name, expires: 0, cseq: 3).status == 200)
        #expect(after.bindings().isEmpty)
    }

    // MARK: Servers of the operator's own

    @Test func `an app that the settings name is a push contact`() throws {
        var registrar = try makeRegistrar()
        let reply = try registrar.register(contact("http", "token", "gateway"))
        #expect(reply.featureCaps == ["*;+sip.pns=\"http\""])
        #expect(
            registrar.targets().map(\.kind) == [
                .sleeping(PushToken(provider: .http, param: ByteString("gateway"), prid: ByteString("token")))
            ])
    }

    @Test(arguments: ["", "other", "Gateway", "gateway%20"])
    func `another app gets 555`(name: String) throws {
        var registrar = try makeRegistrar()
        #expect(try registrar.register(contact("http", "token", name)).status == 555)
    }

    // MARK: Acrobits

    @Test func `Acrobits tokens are a push contact, with one token or two`() throws {
        var registrar = try makeRegistrar()
        for (cseq, prid) in ["T2s=", "T2s=:calls&T3Ro:other", "T3Ro:other&T2s=:calls"].enumerated() {
            let reply = try registrar.register(contact("acrobits", prid, "app:AA:BB"), cseq: cseq + 1)
            #expect(reply.featureCaps == ["*;+sip.pns=\"acrobits\""])
            let token = PushToken(provider: .acrobits, param: ByteString("app:AA:BB"), prid: ByteString(prid))
            #expect(registrar.targets().map(\.kind).contains(.sleeping(token)))
        }
    }

    @Test(arguments: [("T2s=", ""), ("A&B", "app"), ("T2s=:calls&T3Ro:calls", "app"), ("/topics/ä", "app")])
    func `without an app, or not saying which is which, they get 555`(prid: String, param: String) throws {
        var registrar = try makeRegistrar()
        #expect(try registrar.register(contact("acrobits", prid, param)).status == 555)
    }

    // MARK: Apple's apps

    private static let second = "topics: [com.example.phone], apps: { second: { topics: [c], team-id: CCCCCCCCCC } }"

    /// If `pn-param` does not name a topic, the only topic of the settings counts (P8).
    @Test(arguments: [
        // Settings with one app that has one topic.
        ("topics: [com.example.phone]", "", TokenProblem?.none), ("topics: [com.example.phone]", "line1", nil),
        ("topics: [com.example.phone]", "line1.voip", nil),
        ("topics: [com.example.phone]", "AAAAAAAAAA.com.example.phone", nil),
        ("topics: [com.example.phone]", "AAAAAAAAAA.com.example.phone.voip", nil),
        // Contacts without a team, or with a team that the client has invented because it does not know the team.
        ("topics: [com.example.phone]", "com.example.phone", nil),
        ("topics: [com.example.phone]", "com.example.phone.voip", nil),
        ("topics: [com.example.phone]", "ABCD1234.com.example.phone", nil),
        ("topics: [com.example.phone]", "AAAAAAAAAA.com.example.other", .appleTopic),
        ("topics: [com.example.phone]", "BBBBBBBBBB.com.example.phone", .appleTeam),
        // Settings with several topics, or with none.
        ("topics: [com.example.phone, b]", "", .appleParamMissing),
        ("topics: [com.example.phone, b]", "line1", .appleParamMissing),
        ("topics: [com.example.phone, b]", "AAAAAAAAAA.b.voip", nil),
        ("topics: []", "", .appleParamMissing), ("topics: []", "AAAAAAAAAA.com.example.any", nil),
        ("topics: []", "BBBBBBBBBB.com.example.any", .appleTeam),
        // Settings with several apps.
        (second, "", .appleParamMissing), (second, "CCCCCCCCCC.c", nil), (second, "AAAAAAAAAA.c", .appleTeam),
        (second, "AAAAAAAAAA.com.example.phone", nil), (second, "T.d", .appleTopic),
        ("topics: [com.example.phone], apps: { second: { topics: [c], enabled: false } }", "", nil),
        ("topics: [com.example.phone], apps: { second: { topics: [c], enabled: false } }", "T.c", .appleTopic),
    ])
    func `an Apple contact belongs to the app in pn-param, or to the only app`(
        settings: String, param: String, problem: TokenProblem?
    ) throws {
        var registrar = try makeRegistrar(
            apns: "enabled: true, key-file: /k, key-id: BBBBBBBBBB, team-id: AAAAAAAAAA, \(settings)")
        try expect(registrar.register(contact("apns", apple, param)), "apns", problem)
    }

    // MARK: Google's projects

    private static let several = "apps: { second: { params: [\"13\"], project-id: second } },"

    @Test(arguments: [
        ("", "", TokenProblem?.none), ("", "my-project", nil), ("", "123456789012", nil), ("", "com.example.app", nil),
        ("", "demo", nil), ("", "other-project", .googleProject), ("params: [\"12\"],", "my-project", nil),
        ("params: [\"12\"],", "12", nil), ("params: [\"12\"],", "13", .googleProject), ("params: [\"12\"],", "", nil),
        (several, "", .googleParamMissing), (several, "second", nil), (several, "13", nil),
        (several, "my-project", nil),
        (several, "14", .googleProject),
    ])
    func `a Firebase project must be in the settings`(settings: String, param: String, problem: TokenProblem?) throws {
        var registrar = Registrar()
        registrar.settings.push = try acceptance(
            "fcm: { enabled: true, service-account-file: /f, \(settings) project-id: my-project }")
        try expect(registrar.register(contact("fcm", "c:APA91b-_", param)), "fcm", problem)
    }

    private func expect(_ reply: Reply, _ provider: String, _ problem: TokenProblem?) throws {
        #expect(reply.status == (problem == nil ? 200 : 555))
        #expect(reply.featureCaps.contains("*;+sip.pns=\"\(provider)\"") == (problem == nil))
        guard let problem else { return }
        #expect(reply.rows.contains { $0.hasPrefix("Warning: 399 ") && $0.contains("\"\(problem.sentence)\"") })
    }

    // MARK: Numbers

    @Test func `every provider has a number of its own and is found by it`() {
        for provider in PushProvider.allCases {
            let alone = ProviderSet([provider])
            #expect(alone.providers == [provider])
            #expect(PushProvider(ByteString(provider.rawValue)) == provider)
            #expect(PushProvider(ByteString(provider.rawValue.uppercased())) == provider)
        }
        #expect(ProviderSet(PushProvider.allCases).providers == PushProvider.allCases)
    }
}
