import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Testing
import Timekeeping

private let fcm = "*;+sip.pns=\"fcm\""
private let apns = "*;+sip.pns=\"apns\""

@Suite("Push registration (RFC 8599 section 5.6.1, rules P1 to P9)")
struct FeatureCapsTests {

    // MARK: P5

    @Test func `each 200 to a REGISTER names the push service of the contact`() throws {
        var registrar = Registrar()
        for cseq in 1...3 {
            #expect(try registrar.register(PhoneContact.fcm(), cseq: cseq).featureCaps == [fcm])
        }
        #expect(try registrar.register(PhoneContact.apple(), callID: "apple").featureCaps == [apns])
        #expect(try registrar.register(PhoneContact.ordinary(port: 9), callID: "plain").featureCaps.isEmpty)
        #expect(try registrar.register(PhoneContact.ordinary(port: 9), callID: "plain", cseq: 2).featureCaps.isEmpty)
    }

    @Test func `each refresh of a device that wakes by itself gets pnsreg, unless switched off`()
        throws
    {
        var registrar = Registrar()
        let able = PhoneContact.fcm("able", after: ";+sip.pnsreg")
        for cseq in 1...3 {
            #expect(try registrar.register(able, cseq: cseq).featureCaps == ["*;+sip.pns=\"fcm\";+sip.pnsreg=\"130\""])
        }
        #expect(try registrar.register(PhoneContact.fcm("unable"), callID: "other").featureCaps == [fcm])
        registrar.settings.announcedRefresh = .zero
        #expect(try registrar.register(able, cseq: 4).featureCaps == [fcm])
    }

    // MARK: P6

    @Test func `a query for all push services gets a Feature-Caps field for each enabled service`() throws {
        var registrar = Registrar()
        let reply = try registrar.register("<sip:bob@10.0.0.5;pn-provider>")
        #expect(reply.featureCaps == [apns, fcm])
        #expect(registrar.targets().map(\.kind) == [.ordinary])
        // A refreshing REGISTER with the same text gets the same Feature-Caps.
        #expect(try registrar.register("<sip:bob@10.0.0.5;pn-provider>", cseq: 2).featureCaps == [apns, fcm])
    }

    @Test func `a query for one push service gets a Feature-Caps field if the service is enabled`() throws {
        var registrar = Registrar(enabled: [.fcm])
        #expect(try registrar.register("<sip:bob@10.0.0.5;pn-provider=fcm>").featureCaps == [fcm])
        #expect(try registrar.register("<sip:bob@10.0.0.6;pn-provider=apns>", cseq: 2).featureCaps.isEmpty)
        let unknown = try registrar.register("<sip:bob@10.0.0.7;pn-provider=acme>", cseq: 3)
        #expect(unknown.status == 200 && unknown.featureCaps.isEmpty)
    }

    @Test func `push services that another proxy announced are not announced again`() throws {
        var registrar = Registrar()
        let reply = try registrar.register(
            "<sip:bob@10.0.0.5;pn-provider>", headers: ["Feature-Caps: *;+sip.foo;+sip.pns=\"fcm\";+sip.pnsreg=\"130\""]
        )
        #expect(reply.featureCaps == [apns])
    }

    // MARK: P1

    @Test(arguments: [
        "*;+sip.pns=\"fcm\"", "+sip.pns=\"FCM\"", "*;+sip.pns=\"apns\", *;+sip.pns=\"fcm\"",
        "*; +sip.pns = \"apns,fcm\"",
        "*;+sip.pns=\"firebase\"",
    ])
    func `if another proxy sends the pushes, the contact is an ordinary contact`(caps: String) throws {
        var registrar = Registrar()
        let reply = try registrar.register(PhoneContact.fcm(), headers: ["Feature-Caps: \(caps)"])
        #expect(reply.featureCaps.isEmpty)
        #expect(reply.facts.contains(.pushNotUsed(try #require(reply.refreshed.first), .pushedElsewhere)))
        #expect(registrar.targets().map(\.kind) == [.ordinary])
        // After a refresh without another proxy's Feature-Caps, this proxy sends the pushes again.
        #expect(try registrar.register(PhoneContact.fcm(), cseq: 2).featureCaps == [fcm])
        #expect(registrar.targets().map(\.kind) == [.sleeping(.fcm("tok-1", "proj"))])
    }

    @Test func `another proxy's different push service has no effect on the contact`() throws {
        var registrar = Registrar()
        let caps = ["Feature-Caps: *;+sip.pns=\"apns\";+sip.pnsx=\"fcm\""]
        #expect(try registrar.register(PhoneContact.fcm(), headers: caps).featureCaps == [fcm])
        // The contact becomes an ordinary one, because the refresh shows that another proxy pushes through FCM.
        let theirs = ["Feature-Caps: *;+sip.pns=\"fcm\""]
        #expect(try registrar.register(PhoneContact.fcm(), cseq: 2, headers: theirs).featureCaps.isEmpty)
        #expect(registrar.targets().map(\.kind) == [.ordinary])
    }

    @Test func `an unknown push service of another proxy is not refused`() throws {
        var registrar = Registrar()
        let contact = "<sip:bob@10.0.0.5;pn-provider=acme;pn-prid=x>"
        #expect(try registrar.register(contact, headers: ["Feature-Caps: *;+sip.pns=\"acme\""]).status == 200)
        #expect(try registrar.register(contact, cseq: 2).status == 555)
    }

    // MARK: P2, P8, P9

    @Test(arguments: [
        ("acme;pn-prid=x", TokenProblem.unknownProvider, [apns, fcm]),
        ("apns;pn-prid=\("AA".asAppleTokens)", .appleParamMissing, [fcm]),
        ("fcm;pn-prid=%2Ftopics%2Fall;pn-param=p", .googleToken, [apns]),
        ("apns.dev;pn-prid=\("AA".asAppleTokens);pn-param=T.app", .providerOff, [apns, fcm]),
    ])
    func `an unknown, disabled or incomplete push service gets 555 with the offered services`(
        parameters: String, problem: TokenProblem, offered: [String]
    ) throws {
        var registrar = Registrar()
        let reply = try registrar.register("<sip:bob@10.0.0.5;pn-provider=\(parameters)>")
        #expect(reply.status == 555)
        #expect(reply.featureCaps == offered)
        #expect(reply.rows.contains { $0 == "Warning: 399 pn.test \"\(problem.sentence)\"" })
        #expect(registrar.bindings().isEmpty)
    }

    @Test func `a setting makes a contact with an unsupported push service ordinary`() throws {
        var registrar = Registrar()
        registrar.settings.unsupportedPush = .ordinary
        let reply = try registrar.register("<sip:bob@10.0.0.5;pn-provider=acme;pn-prid=x>")
        #expect(reply.status == 200 && reply.featureCaps.isEmpty)
        #expect(registrar.targets().map(\.kind) == [.ordinary])
    }

    @Test func `unpaired Apple tokens make an ordinary contact without 555`() throws {
        var registrar = Registrar()
        let contact = "<sip:bob@10.0.0.5;pn-provider=apns;pn-prid=AA:voip;pn-param=T.com.app.remote>".asAppleTokens
        let reply = try registrar.register(contact)
        #expect(reply.status == 200 && reply.featureCaps.isEmpty)
        #expect(reply.facts.contains(.pushNotUsed(try #require(reply.refreshed.first), .invalid(.unpairedTokens))))
    }

    // MARK: P3

    @Test func `an expiry that is too short gets 423 with the offered services`() throws {
        var registrar = Registrar()
        let reply = try registrar.register(PhoneContact.fcm(), expires: 30)
        #expect(reply.status == 423)
        #expect(reply.values("Min-Expires") == ["60"])
        #expect(reply.featureCaps == [apns, fcm])
        #expect(try registrar.register(PhoneContact.ordinary(), expires: 30).featureCaps.isEmpty)
    }

    @Test func `a push contact that would expire before its refresh push gets 423`() throws {
        var registrar = Registrar()
        registrar.settings.refreshPushLead = .seconds(180)
        let reply = try registrar.register(PhoneContact.fcm(), expires: 179)
        #expect(reply.status == 423)
        #expect(reply.values("Min-Expires") == ["180"])
        #expect(try registrar.register(PhoneContact.fcm(), expires: 180).status == 200)
        #expect(try registrar.register(PhoneContact.fcm(), expires: 179, cseq: 2).status == 423)
        #expect(try registrar.register(PhoneContact.ordinary(), expires: 60).status == 200)
        registrar.settings.refreshPushLead = .seconds(7200)
        #expect(try registrar.register(PhoneContact.fcm(), expires: 3600, cseq: 3).status == 200)
        #expect(try registrar.register(PhoneContact.fcm(), expires: 0, cseq: 4).status == 200)
    }

    // MARK: P7

    @Test func `a device gets only its own token in the 200`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm("secret-1", port: 1, after: PhoneContact.instance(1)))
        let reply = try registrar.register(PhoneContact.apple("AA22", port: 2), callID: "other")
        #expect(
            reply.contacts == [
                "<sip:bob@10.0.0.5:1>\(PhoneContact.instance(1));expires=600",
                PhoneContact.apple("AA22", port: 2) + ";expires=600",
            ])
        let query = try registrar.register(expires: nil, callID: "query")
        #expect(!query.contacts.joined().contains("pn-"))
        #expect(query.contacts.count == 2)
    }

    @Test func `push parameters after the angle bracket are echoed in the URI`() throws {
        var registrar = Registrar()
        let reply = try registrar.register("<sip:bob@10.0.0.5>;q=0.5;pn-provider=fcm;pn-prid=\"a:b\";pn-param=\"p=\"")
        #expect(reply.contacts == ["<sip:bob@10.0.0.5;pn-provider=fcm;pn-prid=a:b;pn-param=p%3D>;q=0.5;expires=600"])
        #expect(registrar.targets().map(\.kind) == [.sleeping(.fcm("a:b", "p="))])
    }

    // MARK: A1

    @Test func `pn-param and pn-params are kept as sent, and a difference is reported`() throws {
        var registrar = Registrar()
        let contact = "<sip:bob@10.0.0.5;pn-provider=fcm;pn-prid=t;pn-params=a;pn-param=b>"
        let reply = try registrar.register(contact)
        #expect(reply.contacts == [contact + ";expires=600"])
        #expect(reply.facts.contains(.conflictingParams(try #require(reply.refreshed.first))))
        let ecss = "<sip:bob@10.0.0.6;pn-provider=fcm;pn-prid=u;pn-params=a>"
        #expect(try registrar.register(ecss, callID: "ecss").contacts.last == ecss + ";expires=600")
    }
}
