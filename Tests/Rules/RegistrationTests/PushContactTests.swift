import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Testing
import Timekeeping

@Suite("Push contacts (ECSS-10 rules R2 to R9)")
struct PushContactTests {
    // MARK: R7, A8

    @Test func `a push contact outlives its expiry, but an ordinary contact does not`() throws {
        var registrar = Registrar()
        let reply = try registrar.register(PhoneContact.fcm(), expires: 600)
        #expect(reply.contacts.first?.hasSuffix(";expires=600") == true)
        try registrar.register("<sip:bob@10.0.0.6>", expires: 600, callID: "desk")
        registrar.advance(.seconds(31_536_000))
        #expect(registrar.sweep(limit: 100).count == 1)
        #expect(registrar.contacts() == [PhoneContact.fcm()])
        #expect(registrar.targets().map(\.isFresh) == [false])
    }

    @Test func `a contact with an empty or unknown token is ordinary`() throws {
        var registrar = Registrar()
        registrar.settings.unsupportedPush = .ordinary
        for (number, parameters) in ["pn-provider=fcm", "pn-provider=acme;pn-prid=x", "pn-prid=x"].enumerated() {
            try registrar.register("<sip:bob@10.0.0.\(number);\(parameters)>", callID: "c\(number)")
        }
        #expect(registrar.targets().allSatisfy { $0.kind == .ordinary })
        registrar.advance(.seconds(601))
        #expect(registrar.bindings().isEmpty)
    }

    // MARK: A6

    @Test func `a REGISTER with the same token from a new address moves the device to the new address`() throws {
        var registrar = Registrar()
        let first = try registrar.register(PhoneContact.fcm(port: 5060), on: .phone(1))
        let moved = "<sip:other@172.16.0.9:6000;transport=tcp;pn-param=proj;pn-prid=tok%2d1;pn-provider=FCM>"
        let second = try registrar.register(moved, callID: "wake", on: .phone(2))
        #expect(second.refreshed == first.refreshed)
        #expect(registrar.bindings().count == 1)
        #expect(registrar.targets().map(\.flow) == [.phone(2)])
        #expect(registrar.targets().map(\.requestURI.string) == ["sip:other@172.16.0.9:6000;transport=tcp"])
    }

    @Test(arguments: [
        "<sip:bob@10.0.0.5:5060;pn-provider=fcm;pn-prid=TOK-1;pn-param=proj>",
        "<sip:bob@10.0.0.5:5060;pn-provider=fcm;pn-prid=tok-1;pn-param=other>",
        "<sip:bob@10.0.0.5:5060;pn-provider=fcm;pn-prid=tok-1>",
    ])
    func `another token, or the token of another app, is another device`(contact: String) throws {
        var registrar = Registrar()
        let first = try registrar.register(PhoneContact.fcm("tok-1"))
        let second = try registrar.register(contact, callID: "other")
        #expect(second.refreshed != first.refreshed)
        #expect(registrar.bindings().count == 2)
    }

    @Test func `two users may share a token`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm(), user: "bob")
        try registrar.register(PhoneContact.fcm(), user: "eve", callID: "eve")
        try registrar.register(PhoneContact.fcm(), user: "eve", expires: 0, callID: "eve", cseq: 2)
        #expect(registrar.bindings(of: "bob").count == 1)
        #expect(registrar.bindings(of: "eve").isEmpty)
    }

    // MARK: R8b

    @Test(arguments: [";label=phone7", PhoneContact.instance(1), PhoneContact.instance(1) + ";reg-id=1"])
    func `a new token under the same label replaces the old one and keeps the device`(label: String) throws {
        var registrar = Registrar()
        let first = try registrar.register(PhoneContact.fcm("old", after: label))
        let second = try registrar.register(PhoneContact.apple("AA22", port: 7000, after: label), callID: "new")
        #expect(second.refreshed == first.refreshed)
        #expect(
            registrar.table.pushToken(of: try #require(second.refreshed.first))?.prid.string
                == PhoneContact.long("AA22"))
        #expect(registrar.bindings().count == 1)
        #expect(second.facts == [.tokenReplaced(try #require(second.refreshed.first))])
    }

    @Test(arguments: ["", ";+sip.instance=\"<urn:uuid:00000000-0000-0000-0000-0000a1b2c3d4>\""])
    func `without a label, and with the instance that pjsua's share, nothing is replaced`(instance: String) throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm("old", port: 5060, after: instance))
        try registrar.register(PhoneContact.fcm("new", port: 5061, after: instance), callID: "new")
        #expect(registrar.bindings().count == 2)
    }

    @Test(arguments: [(";label=a", ";label=b"), (PhoneContact.instance(1), PhoneContact.instance(2))])
    func `another token with another label is another device, from the same address under the same Call-ID (A6)`(
        labels: (String, String)
    ) throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm("one", after: labels.0))
        try registrar.register(PhoneContact.fcm("two", after: labels.1), cseq: 2)
        #expect(registrar.bindings().count == 2)
        // One client signs out, and the other client stays registered.
        try registrar.register(PhoneContact.fcm("one", after: labels.0), expires: 0, cseq: 3)
        #expect(registrar.contacts().count == 1 && registrar.contacts()[0].contains("two"))
        // A contact with the same label is the same phone with a new token.
        try registrar.register(PhoneContact.fcm("three", after: labels.1), cseq: 4)
        #expect(registrar.contacts().count == 1 && registrar.contacts()[0].contains("three"))
    }

    @Test func `a label counts within one AOR`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm("one", after: ";label=x"), user: "bob")
        try registrar.register(PhoneContact.fcm("two", after: ";label=x"), user: "eve", callID: "eve")
        #expect(registrar.bindings(of: "bob").count == 1)
    }

    @Test func `a device that has switched its pushes off replaces its push contact`() throws {
        var registrar = Registrar()
        let first = try registrar.register(PhoneContact.fcm(after: PhoneContact.instance(1)))
        let second = try registrar.register(
            PhoneContact.ordinary(port: 9, after: PhoneContact.instance(1)), callID: "n")
        #expect(second.refreshed == first.refreshed)
        #expect(registrar.targets().map(\.kind) == [.ordinary])
    }

    @Test func `a token that moves to another label's device ends the older contact of that device`() throws {
        var registrar = Registrar()
        let one = try registrar.register(PhoneContact.fcm("one", port: 1, after: ";label=a"))
        let two = try registrar.register(PhoneContact.fcm("two", port: 2, after: ";label=b"), callID: "2")
        let three = try registrar.register(PhoneContact.fcm("one", port: 3, after: ";label=b"), callID: "3")
        #expect(three.refreshed == one.refreshed)
        #expect(three.removed == two.refreshed)
        #expect(registrar.bindings().count == 1)
    }

    @Test func `two contacts of one device in one request do not replace each other`() throws {
        var registrar = Registrar()
        let pair = [PhoneContact.ordinary(port: 1), PhoneContact.ordinary(port: 2)].map {
            $0 + PhoneContact.instance(1)
        }
        let first = try registrar.register(pair[0], pair[1])
        let second = try registrar.register(pair[1], pair[0], cseq: 2)
        #expect(registrar.bindings().count == 2)
        #expect(Set(second.refreshed) == Set(first.refreshed))
        #expect(second.removed.isEmpty)
    }

    // MARK: Switching pushes on and off without a label

    @Test func `an ordinary contact that gets a token becomes a push contact`() throws {
        var registrar = Registrar()
        let first = try registrar.register(PhoneContact.ordinary())
        let second = try registrar.register(PhoneContact.fcm(), callID: "restart")
        #expect(second.refreshed == first.refreshed)
        #expect(registrar.targets().count == 1)
    }

    @Test func `the same client without its token becomes ordinary, another at that address does not touch it`() throws
    {
        var registrar = Registrar()
        let push = try registrar.register(PhoneContact.fcm())
        try registrar.register(PhoneContact.ordinary(), callID: "another-client", on: .phone(2))
        #expect(registrar.bindings().count == 2)
        let ordinary = try registrar.register(PhoneContact.ordinary(), cseq: 2)
        #expect(ordinary.refreshed == push.refreshed)
        #expect(registrar.targets().map(\.kind) == [.ordinary])
    }

    @Test func `a sleeping phone keeps its contact when another gets its private address`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm("sleeping"))
        try registrar.register(PhoneContact.fcm("awake"), callID: "other", on: .phone(2))
        #expect(registrar.bindings().count == 2)
        // A client with the same Call-ID and another token is the same client.
        try registrar.register(PhoneContact.fcm("awake-2"), callID: "other", cseq: 2, on: .phone(2))
        #expect(Set(registrar.contacts()) == [PhoneContact.fcm("sleeping"), PhoneContact.fcm("awake-2")])
    }

    // MARK: R8c, R9

    @Test func `a provider switched off ends its expired contacts and makes fresh ones ordinary`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.apple("AA01"), user: "old", callID: "1")
        try registrar.register(PhoneContact.fcm("f1"), user: "old-android", callID: "2")
        registrar.advance(.seconds(601))
        try registrar.register(PhoneContact.apple("AA02"), user: "fresh", callID: "3")

        let ended = registrar.table.providerDisabled(.apns, now: registrar.now.instant)
        #expect(ended.map(\.aor.user.string) == ["old"])
        #expect(registrar.targets(of: "fresh").map(\.kind) == [.ordinary])
        #expect(registrar.targets(of: "old-android").map(\.kind) == [.sleeping(.fcm("f1", "proj"))])
        #expect(registrar.table.nextExpiry.map { $0 >= registrar.now.instant + .seconds(600) } == true)
        registrar.advance(.seconds(601))
        let swept = registrar.sweep(limit: 10)
        #expect(swept.map(\.aor.user.string) == ["fresh"])
        #expect(registrar.bindings(of: "old-android").count == 1)
        #expect(registrar.table.count == 1)
    }

    @Test func `a provider that is switched on again brings back its unexpired contacts, and no others`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.apple("AA01"), user: "old", callID: "1")
        registrar.advance(.seconds(601))
        try registrar.register(PhoneContact.apple("AA02"), user: "fresh", callID: "3")
        _ = registrar.table.providerDisabled(.apns, now: registrar.now.instant)
        registrar.table.providerEnabled(.apns)
        registrar.advance(.seconds(601))
        #expect(registrar.sweep(limit: 10).isEmpty)
        #expect(registrar.bindings(of: "old").isEmpty)
        #expect(registrar.bindings(of: "fresh").count == 1)
    }

    @Test func `a contact of a disabled provider, accepted as ordinary, sleeps once the provider is on`() throws {
        var registrar = Registrar(enabled: [.fcm])
        registrar.settings.unsupportedPush = .ordinary
        let reply = try registrar.register(PhoneContact.apple())
        let id = try #require(reply.refreshed.first)
        #expect(reply.featureCaps.isEmpty)
        #expect(reply.facts.contains(.pushNotUsed(id, .unsupported(.providerOff))))
        #expect(registrar.targets().map(\.kind) == [.ordinary])
        registrar.table.providerEnabled(.apns)
        let again = try registrar.register(PhoneContact.apple(), cseq: 2)
        #expect(again.featureCaps == ["*;+sip.pns=\"apns\""])
        registrar.advance(.seconds(601))
        #expect(registrar.targets().count == 1)
    }
}

@Suite("Signing out (R8a, A7, P10)")
struct SignOutTests {
    @Test(arguments: [
        // (1) A phone signs out with the push parameters of its registered contact, from whatever address.
        "<sip:bob@10.0.0.5:5060;pn-provider=fcm;pn-prid=tok-1;pn-param=proj>",
        "<sip:x@192.168.7.7:999;pn-param=proj;pn-provider=firebase;pn-prid=tok%2D1>",
        "<sip:x@192.168.7.7:999;pn-provider=fcm;pn-prid=tok-1>", "<sip:x@192.168.7.7:999>;pn-prid=tok-1",
        // (2) A phone signs out with the registered URI without pn-* parameters, or with the registered label.
        "<sip:bob@10.0.0.5:5060>", "<sip:x@192.168.7.7>;label=L", "<sip:x@192.168.7.7;pn-provider=fcm>;label=L",
        "<sip:x@192.168.7.7;pn-provider=fcm;pn-prid=rotated;pn-param=proj>;label=L",
        // (3) A phone signs out with the star, which means all contacts.
        "*",
    ])
    func `a removal by any form of the contact removes the push contact`(contact: String) throws {
        var registrar = Registrar()
        let first = try registrar.register(PhoneContact.fcm(after: ";label=L"))
        let reply = try registrar.register(contact, expires: 0, callID: "other", on: .phone(9))
        #expect(reply.removed == first.refreshed)
        #expect(reply.contacts.isEmpty)
        #expect(reply.plan?.persist == first.refreshed.map { .delete($0) })
        #expect(registrar.bindings().isEmpty)
    }

    @Test(arguments: [
        "<sip:bob@10.0.0.5:5060;pn-provider=fcm;pn-prid=other;pn-param=proj>",
        "<sip:bob@10.0.0.5:5060;pn-provider=apns;pn-prid=tok-1;pn-param=proj>",
        "<sip:bob@10.0.0.5:5060;pn-provider=fcm;pn-prid=tok-1;pn-param=wrong>",
        "<sip:bob@10.0.0.5:5060;pn-provider=fcm;pn-prid=TOK-1;pn-param=proj>",
        "<sip:bob@10.0.0.5:5060;pn-provider=fcm;pn-prid=other;pn-param=proj>;label=M", "<sip:bob@10.0.0.5:5061>",
        "<sip:x@192.168.7.7>;label=M",
    ])
    func `with another token, address or label does not`(contact: String) throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm(after: ";label=L"))
        let reply = try registrar.register(contact, expires: 0, callID: "other")
        #expect(reply.status == 200)
        #expect(reply.removed.isEmpty)
        #expect(registrar.bindings().count == 1)
    }

    @Test func `never gets 555 or 423`() throws {
        var registrar = Registrar()
        let reply = try registrar.register("<sip:bob@10.0.0.5;pn-provider=acme;pn-prid=x>;expires=0", expires: nil)
        #expect(reply.status == 200)
    }

    @Test func `a client whose address changed sends new and old contact together and stays`() throws {
        for isOldFirst in [true, false] {
            var registrar = Registrar()
            let first = try registrar.register(PhoneContact.fcm(port: 1))
            let contacts = [PhoneContact.fcm(port: 1, after: ";expires=0"), PhoneContact.fcm(port: 2)]
            let reply = try registrar.receive(
                try registerRequest(contacts: isOldFirst ? contacts : contacts.reversed(), cseq: 2))
            #expect(reply.refreshed == first.refreshed)
            #expect(reply.removed.isEmpty)
            #expect(registrar.contacts() == [PhoneContact.fcm(port: 2)])
        }
    }

    @Test func `without a token and with a new port, the Call-ID identifies the phone`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm())
        let elsewhere = try registerRequest(
            contacts: [PhoneContact.ordinary(port: 7)], expires: 0, cseq: 2, via: "10.0.0.5:8")
        #expect(try registrar.receive(elsewhere).removed.isEmpty)
        let own = try registerRequest(
            contacts: [PhoneContact.ordinary(port: 7)], expires: 0, cseq: 3, via: "10.0.0.5:7")
        #expect(try registrar.receive(own).removed.count == 1)
    }

    @Test func `a removal removes an ordinary contact at the address before a push contact`() throws {
        var registrar = Registrar()
        let push = try registrar.register(PhoneContact.fcm(), callID: "push")
        let ordinary = try registrar.register(PhoneContact.ordinary(), callID: "desk")
        #expect(push.refreshed != ordinary.refreshed)
        let reply = try registrar.register(PhoneContact.ordinary(), expires: 0, callID: "third")
        #expect(reply.removed == ordinary.refreshed)
    }
}
