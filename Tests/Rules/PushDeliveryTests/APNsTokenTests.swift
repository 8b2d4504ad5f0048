import Bytes
import PushDelivery
import Testing

private func read(
    _ param: String, _ prid: String, withoutService fallback: APNsToken.Service = .remote
) throws(APNsToken.Problem) -> APNsToken {
    try APNsToken(
        PushToken(provider: .apns, param: ByteString(param), prid: ByteString(prid)), withoutService: fallback)
}

private func problem(_ param: String, _ prid: String) -> APNsToken.Problem? {
    do throws(APNsToken.Problem) {
        _ = try read(param, prid)
        return nil
    } catch {
        return error
    }
}

@Suite("Apple tokens in pn-param and pn-prid (RFC 8599 section 10)")
struct APNsTokenTests {
    @Test(
        arguments: [
            // A contact with one token has the name of the token's service at the end of pn-param (RFC 8599).
            ("DEF123GHIJ.com.ex.app.voip", "00fc13adff78512", "com.ex.app", nil, "00fc13adff78512"),
            ("DEF123GHIJ.com.ex.app", "00fc", "com.ex.app", "00fc", nil),
            ("DEF123GHIJ.com.ex.app.remote", "00FC", "com.ex.app", "00fc", nil),
            // Linphone sends the services in both parameters, in any order.
            ("T.com.ex.phone.voip", "AB:voip", "com.ex.phone", nil, "ab"),
            ("T.com.ex.phone.voip&remote", "AB:voip&CD:remote", "com.ex.phone", "cd", "ab"),
            ("T.com.ex.phone.remote&voip", "AB:voip&CD:remote", "com.ex.phone", "cd", "ab"),
            ("T.com.ex.phone.VoIP", "AB:VOIP", "com.ex.phone", nil, "ab"),
            // In pn-param, a word that is no name of a service belongs to the bundle identifier.
            ("T.com.ex.voips", "AB", "com.ex.voips", "ab", nil),
            ("T.voip", "AB", "voip", "ab", nil),
            // In ECSS-10, pn-param is an arbitrary text that only identifies the contact, or is missing.
            ("", "AB", nil, "ab", nil),
            ("", "AB:voip", nil, nil, "ab"),
            ("", "AB:voip&CD:remote", nil, "cd", "ab"),
            ("line-1", "AB", nil, "ab", nil),
            ("T.bad name", "AB", nil, "ab", nil),
            ("T.a\r\nX: y", "AB", nil, "ab", nil),
            // The daemon converts only hexadecimal tokens to lower case.
            ("T.b", "Token-A", "b", "Token-A", nil),
        ] as [(String, String, String?, String?, String?)])
    func `the parser separates the tokens from the bundle identifier`(
        param: String, prid: String, bundle: String?, remote: String?, voip: String?
    ) throws {
        let token = try read(param, prid)
        #expect(token.bundle?.string == bundle)
        #expect(token.remote?.string == remote)
        #expect(token.voip?.string == voip)
    }

    @Test(arguments: [
        ("T.b.voip&remote", "AB", APNsToken.Problem.missingService),
        ("T.b.voip&remote", "AB&CD", .missingService),
        ("T.b.voip&remote", "AB:voip&CD", .missingService),
        ("T.b.voip&remote", "AB:voip", .servicesDiffer),
        ("T.b.voip", "AB:voip&CD:remote", .servicesDiffer),
        ("T.b.voip", "AB:remote", .servicesDiffer),
        ("T.b", "AB:voip", .servicesDiffer),
        ("T.b.voip&remote", "AB:voip&CD:voip", .repeatedService),
        ("T.b.voip&voip", "AB:voip", .repeatedService),
        ("T.b.voip&remote", "A:voip&B:remote&C:voip", .repeatedService),
        ("T.b.voip", "AB:message", .unknownService),
        ("T.b.voip", "AB:", .unknownService),
        ("T.b.voip", ":voip", .emptyToken),
        ("T.b.voip", "", .emptyToken),
        ("T.b.voip", "..", .unusableToken),
        ("T.b.voip", ".:voip", .unusableToken),
    ])
    func `services that do not match are refused with their reason`(
        param: String, prid: String, expected: APNsToken.Problem
    ) {
        #expect(problem(param, prid) == expected)
        #expect(!expected.description.isEmpty)
    }

    @Test func `the settings give the service of a token without one`() throws {
        #expect(try read("", "AB", withoutService: .voip).voip?.string == "ab")
        #expect(try read("T.com.ex.app", "AB", withoutService: .voip).voip?.string == "ab")
        #expect(try read("T.com.ex.app.remote", "AB", withoutService: .voip).remote?.string == "ab")
    }
}
