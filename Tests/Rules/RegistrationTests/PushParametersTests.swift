import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Testing

@Suite("Push parameters (RFC 8599 section 4.1, readings A1 to A4)")
struct PushParametersTests {
    @Test(arguments: [
        // The push parameters may be in the URI or after the bracket, and those in the URI have precedence (A2).
        ("<sip:b@h;pn-provider=fcm;pn-prid=t;pn-param=p>", PushToken.fcm("t", "p")),
        ("<sip:b@h>;pn-provider=fcm;pn-prid=t;pn-param=p", .fcm("t", "p")),
        ("<sip:b@h;pn-prid=inner>;pn-provider=fcm;pn-prid=outer;pn-param=p", .fcm("inner", "p")),
        ("<sip:b@h>;pn-provider=\"fcm\";pn-prid=\"a:b\\c\";pn-param=p", .fcm("a:bc", "p")),
        // The reader ignores the case of parameter names. The reader decodes the values of parameters once, and does not ignore their case.
        ("<sip:b@h;PN-Provider=FCM;Pn-Prid=a%3ab%2DC;pn-param=P%253D>", .fcm("a:b-C", "P%3D")),
        // If `pn-param` and `pn-params` are both present, the name of the RFC has precedence (A1).
        ("<sip:b@h;pn-provider=fcm;pn-prid=t;pn-params=many>", .fcm("t", "many")),
        ("<sip:b@h;pn-provider=fcm;pn-prid=t;pn-params=many;pn-param=one>", .fcm("t", "one")),
        // The provider's name may be an alias (A3), and pn-param may be absent (A4).
        ("<sip:b@h;pn-provider=firebase;pn-prid=t>", .fcm("t", "")),
        ("<sip:b@h;pn-provider=android;pn-prid=t>", .fcm("t", "")),
        ("<sip:b@h;pn-provider=google;pn-prid=t>", .fcm("t", "")),
        (
            "<sip:b@h;pn-provider=apple;pn-prid=AA;pn-param=T.app>",
            PushToken(provider: .apns, param: ByteString("T.app"), prid: ByteString("AA".asAppleTokens))
        ),
        (
            "<sip:b@h;pn-provider=apns.dev;pn-prid=AA;pn-param=T.app>",
            PushToken(provider: .apnsDevelopment, param: ByteString("T.app"), prid: ByteString("AA".asAppleTokens))
        ),
        // Only Apple's tokens are split at a colon, because every FCM token contains a colon.
        ("<sip:b@h;pn-provider=fcm;pn-prid=c:A_d-B;pn-param=p.x>", .fcm("c:A_d-B", "p.x")),
    ])
    func `a provider and a token make a push contact`(contact: String, token: PushToken) throws {
        #expect(try read(contact) == .push(token))
    }

    @Test(arguments: [
        ("<sip:b@h>", PushParameters.none), ("<sip:b@h;pn-silent=1>", .none), ("<sip:b@h;pn-prid>", .none),
        ("<sip:b@h;pn-provider>", .query(.all)), ("<sip:b@h;pn-provider=fcm>", .query(.provider(.fcm))),
        ("<sip:b@h;pn-provider=fcm;pn-prid>", .query(.provider(.fcm))),
        ("<sip:b@h;pn-provider=acme>", .query(.unknown)),
        ("<sip:b@h;pn-prid=t>", .invalid(.missingProvider)),
        ("<sip:b@h;pn-provider=acme;pn-prid=t>", .unsupported(.unknownProvider)),
        ("<sip:b@h;pn-provider=apns;pn-prid=AA>", .unsupported(.appleParamMissing)),
    ])
    func `anything less is not one`(contact: String, expected: PushParameters) throws {
        #expect(try read(contact) == expected)
    }

    /// A push parameter with an empty value counts as a missing parameter (R6).
    @Test(arguments: [
        (["pn-prid": ""], PushParameters.none), (["pn-provider": ""], .query(.all)),
        (["pn-provider": "", "pn-prid": "t"], .query(.all)),
        (["pn-provider": "fcm", "pn-prid": ""], .query(.provider(.fcm))),
        (["pn-type": "apple", "pn-tok": ""], .none),
    ])
    func `empty values count as missing`(parameters: [String: String], expected: PushParameters) throws {
        let contact = try contactOf("<sip:b@h\(parameters.map { ";\($0.key)=\($0.value)" }.joined())>")
        #expect(PushParameters(contact: contact, settings: RegistrarSettings()) == expected)
    }

    @Test func `a token of 4096 bytes is accepted and a longer one is not`() throws {
        for (length, isTaken) in [(4095, true), (4096, true), (4097, false)] {
            // Header parameters may be longer than the parameters of a URI, for which the reader allows 2 KiB.
            let prid = String(repeating: "t", count: length)
            let push = try read("<sip:b@h>;pn-provider=fcm;pn-prid=\(prid);pn-param=p")
            #expect(push == (isTaken ? .push(.fcm(prid, "p")) : .invalid(.tooLong)))
        }
    }

    @Test func `hostile bytes in a param stay bytes`() throws {
        let push = try read("<sip:b@h;pn-provider=fcm;pn-prid=t;pn-param=a%0d%0a%00%22b%7b%7b>")
        #expect(push == .push(.fcm("t", "a\r\n\0\"b{{")))
    }

    // MARK: Two Apple tokens (rfc8599 section 10.2)

    @Test(arguments: [
        ("AA", "T.com.ex.app.voip"), ("AA", "T.com.ex.app"), ("AA:voip", "T.com.ex.app.voip"),
        ("AA:remote", "T.com.ex.app"), ("AA:remote", "T.com.ex.app.remote"),
        ("AA:voip&BB:remote", "T.com.ex.app.voip&remote"), ("BB:remote&AA:voip", "T.com.ex.app.voip&remote"),
    ])
    func `Apple tokens that pair up with their services make a push contact`(prid: String, param: String) throws {
        let contact = "<sip:b@h;pn-provider=apns;pn-prid=\(prid);pn-param=\(param)>"
        // The daemon always sorts the two tokens of a contact in the same way, so that both orders identify the same
        // device.
        let inOrder = prid == "BB:remote&AA:voip" ? "AA:voip&BB:remote" : prid
        let token = PushToken(provider: .apns, param: ByteString(param), prid: ByteString(inOrder.asAppleTokens))
        #expect(try read(contact) == .push(token))
    }

    @Test(arguments: [
        ("AA:voip", "T.com.ex.app.remote"), ("AA:voip", "T.com.ex.app.voip&remote"),
        ("AA:voip&BB:voip", "T.com.ex.app.voip&remote"), ("AA&BB:remote", "T.com.ex.app.voip&remote"),
        ("AA:voip&BB:remote", "T.com.ex.app.voip"), ("AA:voip&BB:remote&CC:x", "T.com.ex.app.voip&remote"),
        (":voip", "T.com.ex.app.voip"), ("AA", "T.com.ex.app.voip&remote"), ("AA:", "T.com.ex.app.voip"),
        ("AA:voip&BB:voip", "T.com.ex.app.voip&voip"),
    ])
    func `tokens that do not pair up are invalid and not unsupported`(prid: String, param: String) throws {
        let contact = "<sip:b@h;pn-provider=apns;pn-prid=\(prid);pn-param=\(param)>"
        #expect(try read(contact) == .invalid(.unpairedTokens))
    }

    // MARK: Forms

    @Test(arguments: [
        ("fcm", "%2Ftopics%2Fall", TokenProblem.googleToken), ("fcm", "a%26b", .googleToken),
        ("fcm", "'a'%20in%20topics", .googleToken), ("fcm", "a.b", .googleToken), ("fcm", "a%00", .googleToken),
        ("apns", "AB", .appleToken), ("apns", String(repeating: "a", count: 63), .appleToken),
        ("apns", String(repeating: "g", count: 64), .appleToken), ("apns.dev", "%2Ftopics%2Fall", .appleToken),
        ("apns", "\(String(repeating: "a", count: 64)):remote&..:voip", .appleToken),
    ])
    func `a token that its provider cannot have made is not accepted`(
        provider: String, prid: String, problem: TokenProblem
    ) throws {
        let services = prid.contains("voip") ? ".voip&remote" : ""
        let contact = "<sip:b@h;pn-provider=\(provider);pn-prid=\(prid);pn-param=T.com.ex.app\(services)>"
        #expect(try PushParameters(contact: contactOf(contact), settings: RegistrarSettings()) == .unsupported(problem))
    }

    // MARK: The set before RFC 8599 (rfc8599 section 10.1)

    @Test(arguments: [
        ("app-id=com.ex.app.voip.prod;pn-type=apple;pn-tok=AA", PushProvider.apns, "ABCD1234.com.ex.app.voip"),
        ("app-id=com.ex.app.voip.dev;pn-type=apple;pn-tok=AA", .apnsDevelopment, "ABCD1234.com.ex.app.voip"),
        ("app-id=929724111;pn-type=firebase;pn-tok=AA", .fcm, "929724111"),
        ("app-id=929724111;pn-type=google;pn-tok=AA", .fcm, "929724111"),
        ("pn-type=android;pn-tok=AA", .fcm, ""),
    ])
    func `Linphone's old push parameters become RFC 8599 parameters`(
        parameters: String, provider: PushProvider, param: String
    ) throws {
        let prid = provider == .fcm ? "AA" : "AA".asAppleTokens
        let token = PushToken(provider: provider, param: ByteString(param), prid: ByteString(prid))
        #expect(try read("<sip:b@h;\(parameters);pn-msg-str=IM_MSG>") == .push(token))
    }

    @Test func `old push parameters are ignored beside new push parameters`() throws {
        #expect(try read("<sip:b@h;pn-type=wp10;pn-tok=X;pn-provider=fcm;pn-prid=t>") == .push(.fcm("t", "")))
        #expect(try read("<sip:b@h;pn-type=wp10;pn-tok=X;pn-provider>") == .query(.all))
    }

    @Test func `a former provider that is not served any more is unsupported`() throws {
        #expect(try read("<sip:b@h;pn-type=wp10;pn-tok=X>") == .unsupported(.unknownProvider))
        #expect(try read("<sip:b@h;pn-type=apple;pn-tok=AA>") == .unsupported(.appleParamMissing))
    }

    private func read(_ contact: String) throws -> PushParameters {
        let isApple = contact.contains("apns") || contact.contains("apple")
        return PushParameters(
            contact: try contactOf(isApple ? contact.asAppleTokens : contact), settings: RegistrarSettings())
    }
}

extension String {
    /// Extends each of the tokens `AA`, `BB` and `CC` in the text to the length of Apple's tokens.
    var asAppleTokens: String {
        ["AA", "BB", "CC"].reduce(self) { $0.replacing($1, with: String(repeating: $1, count: 32)) }
    }
}

extension PushToken {
    static func fcm(_ prid: String, _ param: String) -> PushToken {
        PushToken(provider: .fcm, param: ByteString(param), prid: ByteString(prid))
    }
}

/// Reads a Contact value as the message reader does.
func contactOf(_ text: String) throws -> NameAddress {
    try #require(try registerRequest(contacts: [text]).contacts.first)
}
