import Bytes
import Crypto
import LoopTesting
import ProviderTesting
import Reactor
import Registration
import Settings
import Testing
import TestSupport

@testable import UserSources

/// Tests reading the keys for bearer tokens, from files and from servers that hang or send wrong answers.
@Suite(.timeLimit(.minutes(2))) struct `Keys for bearer tokens` {
    private static func settings(_ more: String) throws -> BearerSettings {
        let yaml = """
            issuers:
                login:
                    issuer: "https://login.example.net/"
                    audience: [sip.example.net]
                    authz-server: "https://login.example.net/"

            """
        let lines = more.split(separator: "\n").map { "        \($0)\n" }.joined()
        return try BearerSettings(yaml: Array((yaml + lines).utf8), file: "test")
    }

    /// Returns a description of the keys, or of the fault.
    private static func words(_ keys: Result<[BearerKey], UserFault>) -> String {
        switch keys {
        case .success(let keys): keys.map(\.words).joined(separator: ", ")
        case .failure(let fault): "fault: \(fault.sentence)"
        }
    }

    private static func words(_ text: String) -> String {
        do throws(UserFault) {
            return words(.success(try KeySet.keys(in: Array(text.utf8))))
        } catch {
            return words(.failure(error))
        }
    }

    private static let rsa =
        #"{"kty":"RSA","kid":"r1","use":"sig","alg":"RS256","n":"\#(TestKeys.rsa2048Modulus)","e":"AQAB"}"#

    @Test func `keys of a set and of a PEM file prove what their private keys signed`() throws {
        let set = try KeySet.keys(in: Array(#"{"keys":[\#(Self.rsa),\#(TestKeys.rfc7515P256JWK)]}"#.utf8))
        #expect(set.map(\.words) == ["RS256 key r1", "ES256 key a3"])
        let pem = try KeySet.keys(in: Array((TestKeys.rsa2048Public + "\n").utf8))
        #expect(pem.map(\.words) == ["RS256 key without a name"])
        #expect(pem[0].print == set[0].print)
        let message = Array("message".utf8)
        for (key, own) in [
            (set[0], try TestTokens.rsa()), (set[1], try TestTokens.p256()), (pem[0], try TestTokens.rsa()),
        ] {
            var signature = try own.signature(of: message)
            #expect(key.isValid(signature, message))
            #expect(!key.isValid(signature, Array("messagf".utf8)))
            signature[9] ^= 1
            #expect(!key.isValid(signature, message))
            #expect(!key.isValid([], message) && !key.isValid([UInt8](repeating: 0, count: 64), message))
        }
        #expect(!set[1].isValid(try TestTokens.rsa().signature(of: message), message))
    }

    @Test(arguments: [
        ("{}", "fault: it is no JSON Web Key Set"),
        ("[]", "fault: no public key can be read: It has no public key in PEM form."),
        ("", "fault: no public key can be read: It has no public key in PEM form."),
        ("<html>", "fault: no public key can be read: It has no public key in PEM form."),
        (#"{"keys":{}}"#, "fault: it is no JSON Web Key Set"),
        (#"{"keys":[]}"#, "fault: the key set has no key for RS256 or ES256"),
        (#"{"keys":[],"keys":[]}"#, "fault: it is no JSON Web Key Set"),
        (#"{"keys":[{"kty":"oct","k":"AAAA","kid":"x"}]}"#, "fault: the key set has no key for RS256 or ES256"),
        (#"{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}"#, "fault: the key set has no key for RS256 or ES256"),
        (
            #"{"keys":[{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}]}"#,
            "fault: the key set has no key for RS256 or ES256"
        ),
        (
            #"{"keys":[{"kty":"EC","crv":"P-384","x":"AQ","y":"AQ"}, 7, null, [], "x"]}"#,
            "fault: the key set has no key for RS256 or ES256"
        ),
    ])
    func `what is no key set is a fault`(_ text: String, _ wanted: String) {
        #expect(Self.words(text) == wanted)
    }

    @Test(arguments: [
        (#""use":"sig""#, #""use":"enc""#), (#""alg":"RS256""#, #""alg":"RS512""#), (#""e":"AQAB""#, #""e":"AQ""#),
        (#""e":"AQAB""#, #""e":"Ag""#), (#""e":"AQAB""#, #""e":"AQAAAAAB""#),
        (#""e":"AQAB""#, #""e":"AQAB","key_ops":["sign"]"#),
        (#""n":""#, #""n":"="#), (#""kty":"RSA""#, #""kty":"rsa""#),
    ])
    func `keys for other purposes, and unsafe keys, are left out`(_ old: String, _ new: String) {
        #expect(Self.words(#"{"keys":[\#(Self.rsa)]}"#) == "RS256 key r1")
        let changed = Self.rsa.replacing(old, with: new)
        #expect(Self.words(#"{"keys":[\#(changed),\#(TestKeys.rfc7515P256JWK)]}"#) == "ES256 key a3")
    }

    @Test func `the names of keys do not reach a terminal as they are`() {
        let named = TestKeys.rfc7515P256JWK.replacing(#""a3""#, with: #""\u001b[2J a""#)
        #expect(Self.words(#"{"keys":[\#(named)]}"#) == "ES256 key ?[2J?a")
    }

    // MARK: Servers

    private func ask(
        _ reply: @escaping @Sendable (FakeProvider.Request) -> FakeProvider.Reply
    ) async throws -> String {
        try await withLoop { loop in
            let server = FakeProvider(loop) { request, _ in reply(request) }
            let url = try await server.listen(tls: nil)
            let settings = try Self.settings("jwks-url: \"\(url)/keys\"")
            let sources = await Bench(loop).run { _ in KeySources(settings, on: loop) }
            let answers = Mailbox<Result<[BearerKey], UserFault>>()
            loop.post { sources.read(0) { answers.put($0) } }
            let answer = try await answers.next()
            await Bench(loop).run { _ in sources.close() }
            await server.close()
            return Self.words(answer)
        }
    }

    @Test func `a server gives its keys, and only 200 counts`() async throws {
        let set = #"{"keys":[\#(Self.rsa)]}"#
        #expect(try await ask { _ in .answer(200, set) } == "RS256 key r1")
        for status in [204, 304, 401, 404, 500, 503] {
            #expect(
                try await ask { _ in .answer(status, status == 204 || status == 304 ? "" : set) }
                    == "fault: the server answers \(status)")
        }
        let redirect = try await ask { _ in .answer(302, set, headers: "Location: http://127.0.0.1:1/\r\n") }
        #expect(redirect == "fault: the server answers 302")
        #expect(try await ask { _ in .close }.hasPrefix("fault: "))
        #expect(try await ask { _ in .bytes("nonsense\r\n\r\n", closes: true) }.hasPrefix("fault: "))
        let long = try await ask { _ in .answer(200, #"{"keys":[\#(String(repeating: " ", count: 10_000_000))]}"#) }
        #expect(long.hasPrefix("fault: the answer is too long"))
    }

    @Test func `doctor reads files and says which keys they have`() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write(Array((TestKeys.rsa2048Public + "\n").utf8), to: "login.pem")
        let facts = try KeySources.facts(of: try Self.settings("key-file: \(file)"))
        #expect(facts == [KeyFact(name: "login", keys: .success(["RS256 key without a name"]))])
        let missing = try KeySources.facts(of: try Self.settings("key-file: /nowhere/login.pem"))
        guard case .failure? = missing.first?.keys else {
            Issue.record("a missing file is no fault")
            return
        }
        let secret = try folder.write(Array((TestKeys.rsa2048 + "\n").utf8), to: "secret.pem")
        guard case .failure(let fault)? = try KeySources.facts(of: try Self.settings("key-file: \(secret)")).first?.keys
        else {
            Issue.record("a private key is taken for a public key")
            return
        }
        #expect(fault.sentence.contains("no public key"))
        folder.remove()
    }

    // MARK: Settings

    @Test(arguments: [
        ("key-file: /a\njwks-url: \"https://a/b\"", "expected either key-file or jwks-url"),
        ("", "expected either key-file or jwks-url"),
        ("jwks-url: \"http://login.example.net/keys\"", "expected https://HOST/PATH"),
        ("jwks-url: \"http://127.0.0.1.evil.example/keys\"", "expected https://HOST/PATH"),
        ("jwks-url: \"http://localhost@evil.example/keys\"", "expected https://HOST/PATH"),
        ("key-file: /a\nalgorithms: [HS256]", "HS256"), ("key-file: /a\nalgorithms: []", "at least one"),
        ("key-file: /a\naudience: []", "at least one"), ("key-file: /a\nleeway: 1h", "leeway"),
        ("key-file: /a\nscope: 'a\"b'", "without quotes"),
        ("key-file: /a\nauthz-server: \"http://a/\"", "expected https"),
    ])
    func `settings that let in others are refused`(_ more: String, _ words: String) throws {
        let text = "        issuer: \"i\"\n        audience: [a]\n        authz-server: \"https://a/\"\n"
        var lines = text.split(separator: "\n").map(String.init)
        for line in more.split(separator: "\n") {
            lines.removeAll { $0.contains("\(line.prefix { $0 != ":" }):") }
            lines.append("        \(line)")
        }
        let yaml = "issuers:\n    login:\n" + lines.joined(separator: "\n") + "\n"
        do {
            _ = try BearerSettings(yaml: Array(yaml.utf8), file: "test")
            Issue.record("accepted: \(more)")
        } catch {
            #expect("\(error)".contains(words), "\(error)")
        }
    }

    @Test func `a domain has one issuer`() throws {
        func yaml(_ first: String, _ second: String) -> String {
            "issuers:\n"
                + [("a", first), ("b", second)].map { name, domains in
                    "    \(name):\n        issuer: i\n        audience: [x]\n        authz-server: \"https://a/\"\n        key-file: /a\n        domains: \(domains)\n"
                }.joined()
        }
        for (first, second) in [("[x.net]", "[X.net]"), ("[]", "[]"), ("[]", "[x.net]")] {
            #expect(throws: SettingsError.self) {
                try BearerSettings(yaml: Array(yaml(first, second).utf8), file: "test")
            }
        }
        let two = try BearerSettings(yaml: Array(yaml("[x.net]", "[y.net]").utf8), file: "test")
        #expect(two.rules.issuers.map(\.name) == ["a", "b"])
    }
}
