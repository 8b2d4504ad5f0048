import Bytes
import JSON
import Testing

@Suite struct `JSON web tokens` {
    private static func part(_ text: String) -> String {
        String(decoding: Base64.url.encode(Array(text.utf8)), as: UTF8.self)
    }

    private static func token(_ header: String, _ claims: String) -> ByteString {
        ByteString("\(part(header)).\(part(claims)).AQID")
    }

    private static func fault(_ token: ByteString) -> JSONWebToken.Fault? {
        do throws(JSONWebToken.Fault) {
            _ = try JSONWebToken(token)
            return nil
        } catch {
            return error
        }
    }

    @Test func `the parts are read, and what is signed is kept byte by byte`() throws {
        let text = Self.token(
            #"{"alg":"RS256","kid":"k","typ":"JWT","jku":"https://evil.example/"}"#,
            #"{"iss":"i","aud":["a","b"],"exp":1700000000.9,"nbf":1.7e9,"sub":"bob","n":1}"#)
        let token = try JSONWebToken(text)
        #expect(token.algorithm == "RS256" && token.keyID == "k" && token.issuer == "i")
        #expect(token.audiences == ["a", "b"] && token.expiry == 1_700_000_000 && token.start == 1_700_000_000)
        #expect(token.claim("sub") == "bob" && token.claim("n") == nil && token.claim("x") == nil)
        #expect(token.signature == [1, 2, 3])
        #expect(token.signed == text[0..<text.count - 5].array)
    }

    @Test(arguments: [
        ("{}", "{}", JSONWebToken.Fault.value), (#"{"alg":1}"#, "{}", .value), (#"{"alg":"x","kid":1}"#, "{}", .value),
        (#"{"alg":"x","crit":[]}"#, "{}", .extensions), (#"{"alg":"x","typ":"JWE"}"#, "{}", .extensions),
        (#"{"alg":"x","typ":null}"#, "{}", .value), (#"{"alg":"x"}"#, "[]", .json), ("7", "{}", .json),
        (#"{"alg":"x"}"#, #"{"a":1,"a":2}"#, .json), (#"{"alg":"x"}"#, #"{"iss":null}"#, .value),
        (#"{"alg":"x"}"#, #"{"exp":"1"}"#, .value), (#"{"alg":"x"}"#, #"{"exp":1e99}"#, .value),
        (#"{"alg":"x"}"#, #"{"exp":-1e99}"#, .value), (#"{"alg":"x"}"#, #"{"nbf":true}"#, .value),
        (#"{"alg":"x"}"#, #"{"aud":[1]}"#, .value), (#"{"alg":"x"}"#, #"{"aud":null}"#, .value),
        (#"{"alg":"x"}"#, #"{"x":[[[[[[[[[1]]]]]]]]]}"#, .json), (#"{"alg":"x"}"#, "{} {}", .json),
        (#"{"alg":"x"}"#, "\u{feff}{}", .json),
    ])
    func `what is ambiguous or of another kind is refused`(
        _ header: String, _ claims: String, _ wanted: JSONWebToken.Fault
    ) {
        #expect(Self.fault(Self.token(header, claims)) == wanted)
    }

    @Test(arguments: [
        "", ".", "..", "a.b", "e30.e30.AQ=", "e30.e30.", "e30.e30.AQ.AQ", "e30.e3 0.AQ", "e30.e31.AQ", "e30.e30.+/",
    ])
    func `another form is refused`(_ text: String) {
        #expect(Self.fault(ByteString(text)) == .form)
    }

    @Test func `a token has a maximum length`() {
        let long = String(repeating: "x", count: 6200)
        #expect(Self.fault(Self.token(#"{"alg":"x"}"#, #"{"x":"\#(long)"}"#)) == .tooLong)
        #expect(Self.fault(Self.token(#"{"alg":"x"}"#, #"{"x":"\#(long.dropLast(100))"}"#)) == nil)
        #expect(Self.fault(ByteString(String(repeating: ".", count: 100_000))) == .tooLong)
    }
}
