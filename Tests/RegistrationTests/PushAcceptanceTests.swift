import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Settings
import Testing
import Timekeeping

private let webpush = "*;+sip.pns=\"webpush\";+sip.vapid=\"BCVxsr7N\""

private func makeRegistrar(_ unsupported: RegistrarSettings.UnsupportedPush = .reject) throws -> Registrar {
    let yaml = """
        webpush: { hosts: [push.example.net] }
        http: { apps: { gateway: { url: https://gateway.example/ } } }
        """
    var acceptance = PushAcceptance(try PushSettings(yaml: Array(yaml.utf8), file: "push.yaml"))
    acceptance.vapidKey = "BCVxsr7N"
    var registrar = Registrar(enabled: [.fcm, .webPush, .acrobits, .http])
    registrar.settings.push = acceptance
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

@Suite("Tokens that settings must know (RFC 8599 section 5.6.1, T12)")
struct PushAcceptanceTests {
    // MARK: Web push

    @Test func `a subscription at an allowed host is a push contact, and the answer names the key`() throws {
        var registrar = try makeRegistrar()
        for cseq in 1...3 {
            let reply = try registrar.register(contact("webpush", "https://push.example.net/s/1?x=y"), cseq: cseq)
            #expect(reply.status == 200)
            #expect(reply.featureCaps == [webpush])
        }
        let token = PushToken(provider: .webPush, param: .empty, prid: ByteString("https://push.example.net/s/1?x=y"))
        #expect(registrar.targets().map(\.kind) == [.sleeping(token)])
        // Kept like any push contact, and found again after a restart.
        registrar.advance(.seconds(100_000))
        let rows = registrar.rows(of: "bob")
        #expect(rows.count == 1)
        var restarted = try makeRestarted(at: registrar.now)
        #expect(restarted.restore(rows) == [true])
        #expect(restarted.targets().map(\.kind) == [.sleeping(token)])
    }

    @Test func `the key is named to those who ask, and beside pnsreg`() throws {
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
    func `a subscription anywhere else gets 555`(url: String) throws {
        var registrar = try makeRegistrar()
        let reply = try registrar.register(contact("webpush", url))
        #expect(reply.status == 555)
        #expect(reply.featureCaps.contains(webpush))
        #expect(registrar.bindings().isEmpty)

        var lenient = try makeRegistrar(.ordinary)
        let taken = try lenient.register(contact("webpush", url))
        #expect(taken.status == 200 && taken.featureCaps.isEmpty)
        #expect(lenient.targets().map(\.kind) == [.ordinary])
        #expect(taken.facts.contains(.pushNotUsed(try #require(taken.refreshed.first), .unsupported(.foreignToken))))
    }

    @Test func `a host that is no longer allowed ends its push contacts at the next start`() throws {
        var registrar = try makeRegistrar()
        try registrar.register(contact("webpush", "https://push.example.net/s"))
        let rows = registrar.rows(of: "bob")
        var restarted = try makeRestarted(at: registrar.now)
        restarted.settings.push = PushAcceptance(PushSettings())
        #expect(restarted.restore(rows) == [true])
        #expect(restarted.targets().map(\.kind) == [.ordinary])
        restarted = try makeRestarted(at: registrar.now)
        restarted.settings.push = PushAcceptance(PushSettings())
        restarted.advance(.seconds(601))
        #expect(restarted.restore(rows) == [false])
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

    @Test func `without an app they get 555, and tokens that do not say which is which are not used`() throws {
        var registrar = try makeRegistrar()
        #expect(try registrar.register(contact("acrobits", "T2s=")).status == 555)
        let reply = try registrar.register(contact("acrobits", "A&B", "app"))
        #expect(reply.status == 200 && reply.featureCaps.isEmpty)
        #expect(reply.facts.contains(.pushNotUsed(try #require(reply.refreshed.first), .invalid(.unreadableToken))))
    }

    // MARK: Numbers

    @Test func `every provider has a number of its own and finds its way back`() {
        for provider in PushProvider.allCases {
            let alone = ProviderSet([provider])
            #expect(alone.providers == [provider])
            #expect(PushProvider(ByteString(provider.rawValue)) == provider)
            #expect(PushProvider(ByteString(provider.rawValue.uppercased())) == provider)
        }
        #expect(ProviderSet(PushProvider.allCases).providers == PushProvider.allCases)
    }
}
