import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Testing
import Timekeeping

@Suite("REGISTER (RFC 3261 section 10.3)")
struct RegisterTests {
    // MARK: Expiry (step 7)

    @Test(arguments: [
        ("<sip:bob@10.0.0.5>;expires=300", 600, 300), ("<sip:bob@10.0.0.5>", 600, 600),
        ("<sip:bob@10.0.0.5>", nil, 3600),
        ("<sip:bob@10.0.0.5>;expires=bad", 600, 3600), ("<sip:bob@10.0.0.5>;expires", 600, 3600),
        ("<sip:bob@10.0.0.5>;expires=99999999999", 600, 86400), ("<sip:bob@10.0.0.5>", 2_592_000, 86400),
        ("<sip:bob@10.0.0.5>;expires=60", 600, 60),
    ])
    func `the contact's expires, else the field, else the default, within bounds`(
        contact: String, field: Int?, granted: Int
    ) throws {
        var registrar = Registrar()
        let reply = try registrar.register(contact, expires: field)
        #expect(reply.contacts == ["<sip:bob@10.0.0.5>;expires=\(granted)"])
    }

    @Test(arguments: [1, 59])
    func `too short a time is refused with the minimum, and nothing changes`(seconds: Int) throws {
        var registrar = Registrar()
        let reply = try registrar.register("<sip:bob@10.0.0.5>;expires=3600", "<sip:bob@10.0.0.6>;expires=\(seconds)")
        #expect(reply.status == 423)
        #expect(reply.values("Min-Expires") == ["60"])
        #expect(registrar.bindings().isEmpty)
    }

    @Test func `a binding ends when its time is over and not before`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary(), expires: 60)
        registrar.advance(.milliseconds(59_999))
        #expect(registrar.contacts().count == 1)
        registrar.advance(.milliseconds(1))
        #expect(registrar.contacts().isEmpty)
    }

    @Test func `the answer counts the remaining seconds of other bindings`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary(), expires: 600)
        registrar.advance(.seconds(100))
        let reply = try registrar.register("<sip:bob@10.0.0.6>", expires: 60, callID: "other")
        #expect(reply.contacts == ["<sip:bob@10.0.0.5:5060>;expires=500", "<sip:bob@10.0.0.6>;expires=60"])
    }

    // MARK: Query and star (step 6)

    @Test func `without a contact the bindings are listed`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary())
        let reply = try registrar.register(expires: nil, callID: "query")
        #expect(reply.contacts == ["<sip:bob@10.0.0.5:5060>;expires=600"])
        #expect(reply.refreshed.isEmpty && !reply.isPersisted)
    }

    @Test func `a star with zero expiry removes everything, push contacts too`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm())
        try registrar.register(PhoneContact.ordinary(port: 5070), callID: "other")
        let reply = try registrar.register("*", expires: 0, callID: "third")
        #expect(reply.status == 200)
        #expect(reply.contacts.isEmpty)
        #expect(reply.removed.count == 2)
        #expect(registrar.bindings().isEmpty)
    }

    @Test(arguments: [nil, 1, 600])
    func `a star without zero expiry is refused`(expires: Int?) throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary())
        #expect(try registrar.register("*", expires: expires, callID: "other").status == 400)
        #expect(registrar.bindings().count == 1)
    }

    @Test func `a star under the same Call-ID needs a higher CSeq`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary(), cseq: 5)
        #expect(try registrar.register("*", expires: 0, cseq: 4).status == 500)
        #expect(try registrar.register("*", expires: 0, cseq: 5).facts == [.retransmission])
        #expect(registrar.bindings().count == 1)
        #expect(try registrar.register("*", expires: 0, cseq: 6).contacts.isEmpty)
    }

    // MARK: Order of REGISTERs (RFC 3261 section 10.3 step 7)

    @Test func `a lower CSeq under the same Call-ID fails and changes nothing`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary(), cseq: 10)
        for contact in [PhoneContact.ordinary(), "<sip:bob@10.9.9.9>", PhoneContact.ordinary(after: ";expires=0")] {
            #expect(try registrar.register(contact, expires: 900, cseq: 9).status == 500)
        }
        #expect(registrar.contacts() == ["<sip:bob@10.0.0.5:5060>"])
        #expect(registrar.bindings().first?.granted == 600)
    }

    @Test func `an equal CSeq is answered again and changes nothing`() throws {
        var registrar = Registrar()
        let first = try registrar.register(PhoneContact.fcm(), cseq: 10)
        let again = try registrar.register(PhoneContact.fcm(), cseq: 10)
        #expect(again.status == 200)
        #expect(again.contacts == first.contacts)
        #expect(again.featureCaps == first.featureCaps)
        #expect(again.refreshed.isEmpty && !again.isPersisted)
        #expect(try registrar.register("<sip:bob@10.9.9.9>", cseq: 10).facts == [.retransmission])
        #expect(registrar.bindings().count == 1)
    }

    @Test func `a new Call-ID starts its own order`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.ordinary(), cseq: 500)
        #expect(try registrar.register(PhoneContact.ordinary(), callID: "after-restart", cseq: 20).status == 200)
        #expect(registrar.bindings().first?.cseq == 20)
    }

    @Test func `an overtaken request does not bring back an old contact`() throws {
        var registrar = Registrar()
        try registrar.register("<sip:bob@10.0.0.99>", cseq: 21)
        #expect(try registrar.register("<sip:bob@10.0.0.5>", cseq: 20).status == 500)
        #expect(registrar.contacts() == ["<sip:bob@10.0.0.99>"])
    }

    @Test func `a client that counts from the start again is not locked out forever`() throws {
        var registrar = Registrar()
        try registrar.register(PhoneContact.fcm(), callID: "fixed", cseq: 100)
        registrar.advance(.seconds(601))
        #expect(try registrar.register(PhoneContact.fcm(), callID: "fixed", cseq: 1).status == 200)
    }

    // MARK: Several contacts

    @Test(arguments: ["tok-1", "tok-2", "tok-3"])
    func `the answer to a refresh names all contacts of the user, in their order`(token: String) throws {
        var registrar = Registrar()
        let tokens = ["tok-1", "tok-2", "tok-3"]
        for other in tokens { try registrar.register(PhoneContact.fcm(other), callID: other) }
        let reply = try registrar.register(PhoneContact.fcm(token), callID: token, cseq: 2)
        #expect(!reply.isPersisted)
        #expect(
            reply.contacts
                == tokens.map { ($0 == token ? PhoneContact.fcm($0) : PhoneContact.ordinary()) + ";expires=600" })
    }

    @Test func `all contacts of a request or none`() throws {
        var registrar = Registrar()
        let reply = try registrar.register("<sip:bob@10.0.0.5>;q=0.5", "<sip:bob@10.0.0.6>;q=1.0, <sip:bob@10.0.0.7>")
        #expect(reply.contacts.count == 3)
        #expect(reply.refreshed.count == 3)
        let refused = try registrar.register(
            "<sip:bob@10.0.0.5>;expires=0", "<sip:bob@10.0.0.8;pn-provider=acme;pn-prid=x>", cseq: 2)
        #expect(refused.status == 555)
        #expect(registrar.bindings().count == 3)
    }

    @Test func `of two contacts that are one the last counts`() throws {
        var registrar = Registrar()
        let reply = try registrar.register("<sip:bob@10.0.0.5>;q=0.5", "<sip:bob@10.0.0.5>;q=0.7")
        #expect(reply.contacts == ["<sip:bob@10.0.0.5>;q=0.7;expires=600"])
    }

    @Test func `one contact can be removed while another is added`() throws {
        var registrar = Registrar()
        try registrar.register("<sip:bob@10.0.0.5>", "<sip:bob@10.0.0.6>")
        let reply = try registrar.register("<sip:bob@10.0.0.7>", "<sip:bob@10.0.0.6>;expires=0", cseq: 2)
        #expect(reply.contacts.map { $0.prefix(18) } == ["<sip:bob@10.0.0.5>", "<sip:bob@10.0.0.7>"])
        #expect(reply.removed.count == 1)
    }

    @Test func `removing an unknown contact is no error`() throws {
        var registrar = Registrar()
        let reply = try registrar.register("<sip:bob@10.0.0.5>", expires: 0)
        #expect(reply.status == 200)
        #expect(reply.contacts.isEmpty && !reply.isPersisted)
    }

    // MARK: Limits (T3)

    @Test func `twelve bindings of an AOR, no thirteenth`() throws {
        var registrar = Registrar()
        for number in 1...12 {
            #expect(try registrar.register("<sip:bob@10.0.1.\(number)>", callID: "c\(number)").status == 200)
        }
        #expect(try registrar.register("<sip:bob@10.0.1.13>", callID: "c13").status == 403)
        #expect(registrar.bindings().count == 12)
        // At the limit of contacts, a contact can still be refreshed, or replace one that is removed.
        #expect(try registrar.register("<sip:bob@10.0.1.12>", callID: "c12", cseq: 2).status == 200)
        let swap = try registrar.register("<sip:bob@10.0.1.13>", "<sip:bob@10.0.1.1>;expires=0", callID: "c13", cseq: 2)
        #expect(swap.status == 200)
    }

    @Test func `twenty contacts of a request, no twenty-first`() throws {
        var registrar = Registrar()
        registrar.settings.maxContacts = 100
        registrar.settings.maxContactsPerRequest = 5
        let contacts = (1...6).map { "<sip:bob@10.0.1.\($0)>" }
        let five = try registrar.receive(try registerRequest(contacts: Array(contacts.prefix(5))))
        #expect(five.status == 200)
        let six = try registrar.receive(try registerRequest(contacts: contacts, callID: "other"))
        #expect(six.status == 400)
    }

    // MARK: Stored text

    @Test(arguments: [
        ("\"Bob\" <sip:bob@10.0.0.5>", "<sip:bob@10.0.0.5>"), ("sip:bob@10.0.0.5;x=1", "<sip:bob@10.0.0.5>;x=1"),
        (
            "<sip:bob@10.0.0.5>;q=0.3;expires=700;methods=\"INVITE, ACK\"",
            "<sip:bob@10.0.0.5>;q=0.3;methods=\"INVITE, ACK\""
        ),
        ("<sip:bob@10.0.0.5;ob;unknown=1>;reg-id=1;odd", "<sip:bob@10.0.0.5;ob;unknown=1>;reg-id=1;odd"),
        ("<sip:bob@10.0.0.5?Route=%3Csip:evil%3E>", "<sip:bob@10.0.0.5?Route=%3Csip:evil%3E>"),
        ("<sip:%00null@10.0.0.5>", "<sip:%00null@10.0.0.5>"),
    ])
    func `a contact is stored and echoed with all parameters`(sent: String, kept: String) throws {
        var registrar = Registrar()
        let reply = try registrar.register(sent)
        #expect(registrar.contacts() == [kept])
        #expect(reply.contacts.first?.hasPrefix(kept + ";expires=") == true)
    }

    @Test func `a refresh finds the binding by URI comparison`() throws {
        var registrar = Registrar()
        let first = try registrar.register("<sip:%62ob@Host.example;transport=TCP>")
        let second = try registrar.register("<sip:bob@host.EXAMPLE;transport=tcp;new=1>", callID: "other")
        #expect(second.refreshed == first.refreshed)
        #expect(registrar.bindings().count == 1)
        let third = try registrar.register("<sip:bob@host.example:5060;transport=tcp>", callID: "third")
        #expect(third.refreshed != first.refreshed)
    }

    @Test func `AORs do not mix`() throws {
        var registrar = Registrar()
        try registrar.register("<sip:x@10.0.0.5>", user: "bob")
        try registrar.register("<sip:x@10.0.0.5>", user: "Bob")
        try registrar.register("*", user: "bob", expires: 0, callID: "other")
        #expect(registrar.bindings(of: "bob").isEmpty)
        #expect(registrar.bindings(of: "Bob").count == 1)
    }

    // MARK: Path (RFC 3327)

    @Test func `Path is stored, echoed and used`() throws {
        var registrar = Registrar()
        let path = ["Path: <sip:tok1@edge.test;lr;ob>, <sip:second.test;lr>", "Path: <sip:third.test;lr>"]
        let expected = ["<sip:tok1@edge.test;lr;ob>", "<sip:second.test;lr>", "<sip:third.test;lr>"]
        let reply = try registrar.register(PhoneContact.ordinary(), headers: path)
        #expect(reply.values("Path") == expected)
        #expect(reply.values("Supported") == ["path"])
        #expect(registrar.targets().first?.path.map(\.string) == expected)
        let without = try registrar.register(PhoneContact.ordinary(), cseq: 2)
        #expect(without.values("Path").isEmpty && without.values("Supported").isEmpty)
        #expect(registrar.targets().first?.path.isEmpty == true)
    }

    // MARK: Stored changes

    @Test func `an ordinary contact's expiry is written before the answer`() throws {
        var registrar = Registrar()
        #expect(try registrar.register(PhoneContact.ordinary()).isPersisted)
        registrar.advance(.seconds(10))
        let reply = try registrar.register(PhoneContact.ordinary(), cseq: 2)
        guard case .upsert(let row)? = reply.plan?.persist.first else {
            Issue.record("no row")
            return
        }
        #expect(row.freshUntil == registrar.now.date + .seconds(600))
        #expect(row.cseq == 2)
        #expect(row == registrar.table.stored(row.id, userAgent: row.userAgent, now: registrar.now))
    }

    @Test func `a push contact's refresh is written only when contact, flow or Path change`() throws {
        var registrar = Registrar()
        let contact = PhoneContact.fcm()
        #expect(try registrar.register(contact).isPersisted)
        let same = try registrar.register(contact, cseq: 2)
        #expect(!same.isPersisted && same.bookkeeping == same.refreshed)
        let newCall = try registrar.register(contact, expires: 900, callID: "restart")
        #expect(!newCall.isPersisted && newCall.bookkeeping == newCall.refreshed)
        #expect(registrar.bindings().first?.callID.string == "restart")
        #expect(registrar.bindings().first?.granted == 900)
        #expect(try registrar.register(contact, callID: "restart", cseq: 2, on: .phone(2)).isPersisted)
        #expect(
            try registrar.register(PhoneContact.fcm(port: 5070), callID: "restart", cseq: 3, on: .phone(2)).isPersisted)
        let path = ["Path: <sip:edge.test;lr>"]
        let moved = PhoneContact.fcm(port: 5070)
        #expect(try registrar.register(moved, callID: "restart", cseq: 4, headers: path, on: .phone(2)).isPersisted)
        #expect(try !registrar.register(moved, callID: "restart", cseq: 5, headers: path, on: .phone(2)).isPersisted)
        #expect(registrar.bindings().count == 1)
    }
}
