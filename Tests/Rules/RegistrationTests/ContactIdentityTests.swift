import Bytes
import PushDelivery
import Registration
import Testing
import Timekeeping

@Suite("Identity of contacts, and the cost of comparing")
struct ContactIdentityTests {
    @Test(arguments: [
        ("voip&remote", "AA:voip&BB:remote", "voip&remote", "BB:remote&AA:voip"),
        ("voip&remote", "AA:voip&BB:remote", "remote&voip", "AA:voip&BB:remote"),
        ("remote&voip", "BB:remote&AA:voip", "voip&remote", "AA:voip&BB:remote"),
    ])
    func `two Apple tokens are the same device in whichever order they come`(
        services: String, given: String, otherServices: String, otherTokens: String
    ) throws {
        var registrar = Registrar()
        let contact = { (services: String, tokens: String, port: Int) in
            "<sip:bob@10.0.0.5:\(port);pn-provider=apns;pn-param=T.com.ex.app.\(services);pn-prid=\(tokens.asAppleTokens)>"
        }
        let first = try registrar.register(contact(services, given, 5060))
        let second = try registrar.register(contact(otherServices, otherTokens, 6060), callID: "later", on: .phone(2))
        #expect(second.refreshed == first.refreshed)
        let tokens = registrar.targets().map { target in
            if case .sleeping(let token) = target.kind { token.prid.string } else { "" }
        }
        #expect(tokens == ["AA:voip&BB:remote".asAppleTokens])
        #expect(!second.facts.contains { if case .tokenReplaced = $0 { true } else { false } })
        // A REGISTER with the two tokens in either order removes the contact.
        let end = try registrar.register(contact(services, given, 7070), expires: 0, callID: "end", on: .phone(3))
        #expect(end.removed == first.refreshed)
        #expect(registrar.bindings().isEmpty)
    }

    @Test(arguments: [("0", 0), ("0.5", 500), ("0.123", 123), ("1", 1000), ("1.000", 1000), ("0.", 0), ("1.", 1000)])
    func `q is 0 to 1 with three digits`(value: String, thousandths: Int) throws {
        var registrar = Registrar()
        let reply = try registrar.register("<sip:bob@10.0.0.5>;q=\(value)")
        #expect(registrar.targets().map { Int($0.q) } == [thousandths])
        #expect(registrar.bindings().map { Int($0.q) } == [thousandths])
        #expect(reply.contacts.first?.contains(";q=\(value);") == true)
    }

    @Test(arguments: ["1.001", "2", "0.1234", ".5", "-1", "x", "0.5x", "00", "1e0", "+0.5"])
    func `an invalid q counts as none, and is not repeated`(value: String) throws {
        var registrar = Registrar()
        let reply = try registrar.register("<sip:bob@10.0.0.5>;x=y;q=\(value)")
        #expect(registrar.targets().map(\.q) == [1000])
        #expect(reply.contacts == ["<sip:bob@10.0.0.5>;x=y;expires=600"])
    }

    @Test func `a user is remembered when the last contact has gone`() throws {
        var registrar = Registrar()
        try registrar.register("<sip:bob@10.0.0.5>")
        let before = registrar.wasKnown("bob")
        #expect(!before)
        registrar.advance(.seconds(601))
        let swept = registrar.sweep().count
        #expect(swept == 1)
        let known = (registrar.isKnown("bob"), registrar.wasKnown("bob"), registrar.wasKnown("eve"))
        #expect(known == (false, true, false))
    }

    @Test func `many contacts with many parameters are distinguished`() throws {
        var registrar = Registrar()
        let contacts = Self.contacts(12, marked: "a")
        for (number, contact) in contacts.enumerated() { try registrar.register(contact, callID: "c\(number)") }
        #expect(registrar.bindings().count == 12)
        // A contact with the same parameters in another order counts as a refresh.
        for (number, contact) in Self.contacts(12, marked: "A", isReversed: true).enumerated() {
            let reply = try registrar.register(contact, callID: "c\(number)", cseq: 2)
            #expect(reply.refreshed.count == 1 && reply.removed.isEmpty)
        }
        #expect(registrar.bindings().count == 12)
    }

    /// Makes contacts that differ only in their last parameter.
    static func contacts(_ count: Int, marked mark: String, isReversed: Bool = false) -> [String] {
        (0..<count).map { number in
            var parameters = (0..<49).map { "p\($0)=value\($0)" } + ["which=\(mark)\(number)"]
            if isReversed { parameters.reverse() }
            return "<sip:bob@10.0.0.5;\(parameters.joined(separator: ";"))>"
        }
    }
}
