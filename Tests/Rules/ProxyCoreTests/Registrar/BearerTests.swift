import Addressing
import Bytes
import Crypto
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import Synchronization
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests phones that authenticate with bearer tokens instead of passwords (T40).
@Suite struct `Bearer tokens` {
    /// Counts how often the engine checked the signature of a token.
    private final class Checks: Sendable {
        let count = Atomic(0)
        func add() { count.wrappingAdd(1, ordering: .relaxed) }
        var made: Int { count.load(ordering: .relaxed) }
    }

    private static func bench(
        log: Log = .silent, keys: [BearerKey]? = nil, _ change: (inout ProxySettings) -> Void = { _ in }
    ) throws -> EngineBench {
        let bench = EngineBench(users: TestDigest.users("bob", "eve"), log: log, hasTLS: true) {
            $0.authenticates = true
            $0.upstream = NextHop("sip:10.0.0.2:5060")
            var issuer = BearerRules.Issuer(
                name: "login", issuer: TestTokens.issuer, audiences: [TestTokens.audience],
                server: ByteString("https://login.example.net/"))
            issuer.domains = [ByteString("example.net")]
            $0.bearer.issuers = [issuer]
            $0.limits.registersPerSource = 0
            change(&$0)
        }
        let usual = [TestTokens.published(try TestTokens.rsa()), TestTokens.published(try TestTokens.p256())]
        bench.engine.keysRead(.success(keys ?? usual), of: 0, now: bench.now)
        bench.take()
        return bench
    }

    private static func flow(_ transport: Transport = .tls, from source: Endpoint = EngineBench.phone) -> Flow {
        let listener: UInt16 =
            switch transport {
            case .udp: 0
            case .tcp: 1
            case .tls: 2
            case .ws, .wss: 3
            }
        return Flow(transport: transport, listener: listener, connection: transport == .udp ? 0 : 7, remote: source)
    }

    /// Sends a REGISTER with a bearer token, and returns the status, the challenges and the header fields of the
    /// response.
    @discardableResult
    private func register(
        _ bench: EngineBench, _ token: String, as user: String = "bob", on flow: Flow = flow(), callID: String = "r1",
        extra: [String] = []
    ) -> (status: UInt16, challenges: [String], fields: [String]) {
        let text = bench.registerText(
            user: user, callID: callID, extra: ["Authorization: Bearer \(token)", "User-Agent: Phone 1"] + extra)
        let out = bench.receive(text, on: flow)
        guard let answer = sentResponse(out + bench.commitAll(in: out)) else { return (0, [], []) }
        return (
            answer.status.code, answer.frame.values(of: .wwwAuthenticate).map(\.string),
            answer.frame.values(of: .retryAfter).map(\.string)
        )
    }

    // MARK: Accepted

    @Test func `a token registers its user`() throws {
        let bench = try Self.bench()
        #expect(register(bench, try TestTokens.token(by: TestTokens.rsa())).status == 200)
        #expect(register(bench, try TestTokens.token(by: TestTokens.p256()), callID: "r2").status == 200)
        #expect(
            register(bench, try TestTokens.token(by: TestTokens.rsa()), on: Self.flow(.wss), callID: "r3").status == 200
        )
        #expect(!bench.targets.isEmpty)
        let typed = try TestTokens.token(header: #"{"alg":"RS256","typ":"at+jwt","kid":"x"}"#, by: TestTokens.rsa())
        #expect(register(bench, typed, callID: "r4").status == 200)
        let long = try TestTokens.token(
            TestTokens.claims("bob@Example.NET", ["aud": #"["x","sip.example.net"]"#]), by: TestTokens.rsa())
        #expect(register(bench, long, callID: "r5").status == 200)
        #expect(bench.engine.figures[.tokenAccepted] == 5)
    }

    @Test func `a user who is in no store registers with a token and is known`() throws {
        let bench = try Self.bench()
        #expect(
            register(bench, try TestTokens.token(TestTokens.claims("carol"), by: TestTokens.rsa()), as: "carol").status
                == 200)
        #expect(bench.engine.isKnown(AddressOfRecord(user: ByteString("carol"), host: ByteString("example.net"))))
    }

    @Test func `the case of a domain does not matter`() throws {
        let bench = try Self.bench { $0.domains = [ByteString("Example.NET")] }
        #expect(register(bench, try TestTokens.token(by: TestTokens.rsa())).status == 200)
    }

    // MARK: Refused

    @Test(arguments: [
        ("iss", "\"https://evil.example/\"", "its token is of another issuer (iss)"),
        ("iss", "\"https://login.example.net\"", "its token is of another issuer (iss)"),
        ("iss", "", "its token is of another issuer (iss)"), ("iss", "7", "its token is not a signed JWT"),
        ("aud", "\"files.example.net\"", "its token is for another audience (aud)"),
        ("aud", "", "its token is for another audience (aud)"),
        ("aud", "[]", "its token is for another audience (aud)"),
        ("aud", "[7]", "its token is not a signed JWT"), ("aud", "{}", "its token is not a signed JWT"),
        ("exp", "1789999000", "its token has expired"), ("exp", "", "its token has no expiry (exp)"),
        ("exp", "\"1890000000\"", "its token is not a signed JWT"), ("exp", "1e400", "its token is not a signed JWT"),
        ("exp", "-5", "its token has expired"), ("nbf", "1790000100", "its token is not valid yet (nbf)"),
        ("nbf", "\"soon\"", "its token is not a signed JWT"), ("sub", "", "its token names no user"),
        ("sub", "\"\"", "its token names no user"), ("sub", "7", "its token names no user"),
        ("sub", #""bob\u0000""#, "its token names no user"), ("sub", #""bob>;tag=x""#, "its token names no user"),
        ("sub", #""bob eve""#, "its token names no user"), ("sub", #""bob\r\nX: y""#, "its token names no user"),
        ("sub", "\"bob@evil.example\"", "its token is of a user of another domain"),
        ("sub", "\"@example.net\"", "its token is of a user of another domain"),
    ])
    func `a signed token with a wrong claim registers nobody`(_ claim: String, _ value: String, _ reason: String) throws
    {
        let sink = MemoryLogSink()
        let bench = try Self.bench(log: Log(level: .debug, sink: sink) { UnixTime(seconds: 0) })
        let token = try TestTokens.token(TestTokens.claims("bob", [claim: value]), by: TestTokens.rsa())
        let answer = register(bench, token)
        #expect(answer.status == 401)
        #expect(answer.challenges.first?.contains("error=\"invalid_token\"") == true)
        #expect(answer.challenges.dropFirst().allSatisfy { $0.hasPrefix("Digest ") } && answer.challenges.count > 1)
        #expect(bench.targets.isEmpty)
        #expect(sink.lines.contains { $0.contains("REGISTER refused") && $0.contains(reason) })
        // A token with a wrong claim does not count as a wrong password of its source address.
        #expect(bench.engine.figures[.loginFailed] == 0)
    }

    @Test func `names that look alike are different`() throws {
        let bench = try Self.bench { $0.bearer.issuers[0].issuer = "caf\u{e9}" }
        let other = try TestTokens.token(TestTokens.claims("bob", ["iss": "\"cafe\u{301}\""]), by: TestTokens.rsa())
        #expect(register(bench, other).status == 401)
        let same = try TestTokens.token(TestTokens.claims("bob", ["iss": "\"caf\u{e9}\""]), by: TestTokens.rsa())
        #expect(register(bench, same).status == 200)
    }

    @Test func `the header of a token chooses neither algorithm nor key`() throws {
        let bench = try Self.bench()
        let rsa = try TestTokens.rsa()
        let public1 = Array(TestKeys.rsa2048Public.utf8)
        let signed = #"{"alg":"HS256","typ":"JWT"}"#
        let head = TestTokens.unsigned(header: signed, claims: TestTokens.claims(), signature: []).dropLast()
        var hmac = try HMACKey(public1.span)
        let code = hmac.code(for: Array(head.utf8))
        var tokens = [
            TestTokens.unsigned(header: signed, claims: TestTokens.claims(), signature: code),
            TestTokens.unsigned(header: #"{"alg":"none"}"#, claims: TestTokens.claims(), signature: []),
            TestTokens.unsigned(header: #"{"alg":"none"}"#, claims: TestTokens.claims(), signature: [1]),
            TestTokens.unsigned(header: #"{"alg":"nOnE"}"#, claims: TestTokens.claims(), signature: [1]),
        ]
        for header in [
            #"{"alg":"RS512"}"#, #"{"alg":"PS256"}"#, #"{"alg":"rs256"}"#, #"{"alg":7}"#, "{}", #"{"alg":null}"#,
            #"{"alg":"ES256"}"#, #"{"alg":"RS256","alg":"RS256"}"#, #"{"alg":"RS256","crit":["exp"]}"#,
            #"{"alg":"RS256","b64":false,"crit":["b64"]}"#, #"{"alg":"RS256","typ":"JOSE+JSON"}"#,
            #"{"alg":"RS256","kid":7}"#, #"{"alg":"RS256","kid":"\#(String(repeating: "k", count: 300))"}"#,
            #"{"alg":"RS256","typ":"secevent+jwt"}"#,
        ] {
            tokens.append(try TestTokens.token(header: header, by: rsa))
        }
        for (number, token) in tokens.enumerated() {
            let answer = register(
                bench, token, on: Self.flow(from: Endpoint(IPAddress(v4: 0xc633_6400 + UInt32(number)), 40_000)))
            #expect(answer.status == 401, "\(token)")
        }
        #expect(bench.targets.isEmpty)
    }

    @Test func `keys in a token's header are not used, and the names of keys are only names`() throws {
        let checks = Checks()
        let bench = try Self.bench(keys: [TestTokens.published(try TestTokens.rsa(), id: "a", checks: checks.add)])
        let evil = try TestTokens.p256()
        for header in [
            #"{"alg":"ES256","jwk":\#(TestKeys.rfc7515P256JWK)}"#,
            #"{"alg":"ES256","jku":"https://evil.example/keys","kid":"a"}"#,
            #"{"alg":"ES256","x5u":"https://evil.example/keys"}"#, #"{"alg":"ES256","kid":"../../dev/null"}"#,
            #"{"alg":"ES256","kid":"' OR 1=1"}"#, #"{"alg":"ES256","kid":""}"#,
        ] {
            #expect(register(bench, try TestTokens.token(header: header, by: evil)).status != 200)
        }
        #expect(checks.made == 0)
        let ignored = #"{"alg":"RS256","kid":"a","jku":"https://evil.example/keys","x5c":["x"]}"#
        #expect(register(bench, try TestTokens.token(header: ignored, by: TestTokens.rsa())).status == 200)
    }

    @Test(arguments: [
        "", "x", "..", "a.b", "a.b.c.d", "%%%.%%%.%%%", "e30.e30.", "e30.e30.AA", "W10.W10.AA", "bnVsbA.e30.AA",
        "eyJhbGciOiJSUzI1NiJ9.eyJhbGciOiJSUzI1NiJ9=.AA", "eyJhbGciOiJSUzI1NiJ9.e30.AAA", "\u{e9}.e30.AA",
    ])
    func `what is no token registers nobody`(_ text: String) throws {
        let bench = try Self.bench()
        #expect(register(bench, text).status == 401)
    }

    @Test func `deep, long and ambiguous tokens register nobody`() throws {
        let bench = try Self.bench()
        let rsa = try TestTokens.rsa()
        let deep = String(repeating: "[", count: 40) + String(repeating: "]", count: 40)
        let many = "[" + Array(repeating: "1", count: 600).joined(separator: ",") + "]"
        for claims in [
            TestTokens.claims("bob", ["x": deep]), TestTokens.claims("bob", ["x": many]),
            TestTokens.claims("bob", ["x": "\"\(String(repeating: "x", count: 7000))\""]),
            String(TestTokens.claims("eve").dropLast()) + #","sub":"bob"}"#, TestTokens.claims() + " {}",
        ] {
            #expect(register(bench, try TestTokens.token(claims, by: rsa)).status == 401)
        }
        let good = try TestTokens.token(by: rsa)
        #expect(register(bench, good, extra: ["Authorization: Bearer \(good)"]).status == 401)
        #expect(bench.targets.isEmpty)
    }

    @Test func `a user's token registers only the user`() throws {
        let bench = try Self.bench()
        let token = try TestTokens.token(TestTokens.claims("eve"), by: TestTokens.rsa())
        #expect(register(bench, token, as: "bob").status == 403)
        #expect(register(bench, try TestTokens.token(TestTokens.claims("BOB"), by: TestTokens.rsa())).status == 403)
        #expect(bench.targets.isEmpty)
    }

    @Test(arguments: [Transport.udp, .tcp, .ws])
    func `without TLS a token is neither read nor asked for`(_ transport: Transport) throws {
        let checks = Checks()
        let sink = MemoryLogSink()
        let bench = try Self.bench(
            log: Log(level: .info, sink: sink) { UnixTime(seconds: 0) },
            keys: [TestTokens.published(try TestTokens.rsa(), checks: checks.add)])
        let answer = register(bench, try TestTokens.token(by: TestTokens.rsa()), on: Self.flow(transport))
        #expect(answer.status == 401)
        #expect(!answer.challenges.isEmpty && answer.challenges.allSatisfy { $0.hasPrefix("Digest ") })
        #expect(checks.made == 0)
        #expect(sink.lines.contains { $0.contains("it shows a token without TLS") })
    }

    // MARK: The challenge

    @Test func `the challenge for tokens is the first, and names the server`() throws {
        let bench = try Self.bench { $0.bearer.issuers[0].scope = ByteString("sip") }
        func challenges(_ request: [UInt8], on flow: Flow, _ name: HeaderName) -> [String] {
            sentResponse(bench.receive(request, on: flow))?.frame.values(of: name).map(\.string) ?? []
        }
        let phone = ["User-Agent: Phone 1"]
        let asked = challenges(bench.registerText(extra: phone), on: Self.flow(), .wwwAuthenticate)
        #expect(
            asked.first
                == #"Bearer realm="example.net", authz_server="https://login.example.net/", scope="sip""#)
        #expect(asked.count == 3 && asked.dropFirst().allSatisfy { $0.hasPrefix("Digest ") })
        let call = challenges(bench.phoneText(), on: Self.flow(), .proxyAuthenticate)
        #expect(call.first?.hasPrefix("Bearer ") == true && call.count == 3)
        for transport in [Transport.udp, .tcp] {
            let open = challenges(
                bench.registerText(callID: "o", extra: phone), on: Self.flow(transport), .wwwAuthenticate)
            #expect(open.count == 2 && open.allSatisfy { $0.hasPrefix("Digest ") })
        }
        let old = challenges(
            bench.registerText(callID: "b", extra: ["User-Agent: baresip v1.0"]), on: Self.flow(), .wwwAuthenticate)
        #expect(old.count == 1 && old[0].hasPrefix("Digest "))
    }

    @Test func `passwords work beside tokens`() throws {
        let bench = try Self.bench()
        let request = bench.registerText(extra: ["User-Agent: Phone 1"])
        let challenge = try #require(sentResponse(bench.receive(request, on: Self.flow())))
        let digests = challenge.frame.values(of: .wwwAuthenticate).filter { !$0.isBearer }
        #expect(!digests.isEmpty)
        let answered = TestDigest.answer(challenge, to: request, as: "bob")
        let out = bench.receive(answered, on: Self.flow())
        #expect(sentResponse(out + bench.commitAll(in: out))?.status == .ok)
    }

    // MARK: Guesses

    /// Makes a token with a wrong signature: the signature of another token.
    private func forged(_ user: String = "bob", _ number: Int = 0) throws -> String {
        let claims = TestTokens.claims(user, ["jti": "\(number)"])
        let good = try TestTokens.token(claims, by: TestTokens.rsa()).split(separator: ".")
        let other = try TestTokens.token(TestTokens.claims(user, ["jti": "\(number + 1)"]), by: TestTokens.rsa())
        return "\(good[0]).\(good[1]).\(other.split(separator: ".")[2])"
    }

    @Test func `forged signatures count as wrong passwords, and then nothing is checked`() throws {
        let checks = Checks()
        let bench = try Self.bench(keys: [TestTokens.published(try TestTokens.rsa(), checks: checks.add)])
        // Bob registers from his home address with a valid token, before an attacker sends forged tokens.
        let good = try TestTokens.token(by: TestTokens.rsa())
        let home = Self.flow(from: Endpoint(IPAddress(v4: 0xc000_0299), 40_000))
        #expect(register(bench, good, on: home).status == 200)
        var statuses: [UInt16] = []
        for number in 0..<30 {
            statuses.append(register(bench, try forged("bob", number), callID: "g\(number)").status)
        }
        #expect(statuses.first == 401 && statuses.last == 503)
        #expect(checks.made == 1 + statuses.count { $0 == 401 })
        #expect(checks.made <= 11)
        let refused = register(bench, try forged("bob", 99), callID: "g99")
        #expect(!refused.fields.isEmpty)
        // The engine remembers bob's valid token and need not check it again, so bob can register from every address.
        #expect(register(bench, good, on: home, callID: "r2").status == 200)
        #expect(register(bench, good, callID: "r3").status == 200)
        // The engine checks a new token of bob if the token comes from his home address, in spite of the forged tokens.
        let fresh = try TestTokens.token(TestTokens.claims("bob", ["jti": "7"]), by: TestTokens.rsa())
        #expect(register(bench, fresh, on: home, callID: "r4").status == 200)
    }

    @Test func `a source has a limit of checks, also with good tokens`() throws {
        let checks = Checks()
        let bench = try Self.bench(keys: [TestTokens.published(try TestTokens.rsa(), checks: checks.add)])
        let rsa = try TestTokens.rsa()
        var last: UInt16 = 0
        for number in 0..<3001 {
            let token = try TestTokens.token(TestTokens.claims("bob", ["jti": "\(number)"]), by: rsa)
            last = register(bench, token, callID: "r\(number)").status
            guard last == 200 else { break }
        }
        #expect(last == 503)
        #expect(checks.made == 3000)
    }

    // MARK: Memory

    @Test func `a token is checked once, until it ends or its key is withdrawn`() throws {
        let checks = Checks()
        let key = TestTokens.published(try TestTokens.rsa(), id: "a", checks: checks.add)
        let bench = try Self.bench(keys: [key])
        let token = try TestTokens.token(by: TestTokens.rsa())
        for number in 0..<20 { #expect(register(bench, token, callID: "r\(number)").status == 200) }
        #expect(checks.made == 1)
        // When the engine reads the same keys again, it still remembers the checked token.
        bench.engine.keysRead(.success([key]), of: 0, now: bench.now)
        #expect(register(bench, token, callID: "s").status == 200)
        #expect(checks.made == 1)
        let other = TestTokens.published(try TestTokens.p256(), id: "b", checks: checks.add)
        bench.engine.keysRead(.success([other]), of: 0, now: bench.now)
        #expect(register(bench, token, callID: "t").status != 200)
        bench.engine.keysRead(.success([key, other]), of: 0, now: bench.now)
        #expect(register(bench, token, callID: "u").status == 200)
        #expect(checks.made == 2)
        _ = bench.pass(.seconds(3600 + 29))
        #expect(register(bench, token, callID: "v").status == 200)
        _ = bench.pass(.seconds(1))
        #expect(register(bench, token, callID: "w").status == 401)
        #expect(checks.made == 2)
        // The phone's contact stays, so that pushes can still wake the phone.
        #expect(!bench.targets.isEmpty)
    }

    @Test func `the memory of tokens has a maximum size`() throws {
        let checks = Checks()
        let bench = try Self.bench(keys: [TestTokens.published(try TestTokens.rsa(), checks: checks.add)]) {
            $0.bearer.remembered = 2
        }
        let tokens = try (0..<3).map {
            try TestTokens.token(TestTokens.claims("bob", ["jti": "\($0)"]), by: TestTokens.rsa())
        }
        for (number, token) in (tokens + [tokens[2], tokens[0]]).enumerated() {
            #expect(register(bench, token, callID: "r\(number)").status == 200)
        }
        #expect(checks.made == 4)
        #expect(bench.engine.figures[.tokensRemembered] == 2)
    }

    // MARK: Keys

    private func reads(_ actions: [ProxyAction]) -> Int {
        actions.count { if case .readKeys = $0 { true } else { false } }
    }

    @Test func `a key that is not known is asked for, once in half a minute`() throws {
        let old = TestTokens.published(try TestTokens.rsa(), id: "old")
        let bench = try Self.bench(keys: [old])
        _ = bench.pass(.seconds(60))
        let token = try TestTokens.token(header: #"{"alg":"ES256","kid":"new"}"#, by: TestTokens.p256())
        func show(_ callID: String) -> (UInt16?, Int) {
            let out = bench.receive(
                bench.registerText(callID: callID, extra: ["Authorization: Bearer \(token)"]), on: Self.flow())
            let all = out + bench.commitAll(in: out)
            return (sentResponse(all)?.status.code, reads(all))
        }
        #expect(show("r1") == (503, 1))
        #expect(show("r2") == (503, 0))
        bench.engine.keysRead(.success([old]), of: 0, now: bench.now)
        #expect(show("r3") == (401, 0))
        _ = bench.pass(.seconds(31))
        #expect(show("r4") == (503, 1))
        bench.engine.keysRead(
            .success([old, TestTokens.published(try TestTokens.p256(), id: "new")]), of: 0, now: bench.now)
        #expect(show("r5") == (200, 0))
        // After ten minutes, the engine reads the keys again, even if no token has arrived.
        #expect(reads(bench.pass(.seconds(599))) == 0)
        #expect(reads(bench.pass(.seconds(2))) == 1)
    }

    @Test func `while the keys cannot be read, the last keys count, and without any the phone gets 503`() throws {
        let sink = MemoryLogSink()
        let bench = try Self.bench(log: Log(level: .notice, sink: sink) { UnixTime(seconds: 0) })
        let fault = UserFault("the server answers 500", cure: "Check it.")
        let token = try TestTokens.token(by: TestTokens.rsa())
        for _ in 0..<3 { bench.engine.keysRead(.failure(fault), of: 0, now: bench.now) }
        #expect(register(bench, token).status == 200)
        #expect(bench.engine.figures[.tokenIssuersAway] == 1)
        #expect(
            sink.lines.count { $0.contains("so it keeps the keys") && $0.contains("the server answers 500") }
                == 1)
        // The engine tries to read the keys again, first after two seconds.
        bench.take()
        #expect(reads(bench.pass(.seconds(60))) == 1)
        bench.engine.keysRead(.success([TestTokens.published(try TestTokens.rsa())]), of: 0, now: bench.now)
        #expect(sink.lines.contains { $0.contains("the keys for bearer tokens can be read again") })
        let empty = try Self.bench(log: Log(level: .notice, sink: sink) { UnixTime(seconds: 0) }, keys: [])
        empty.engine.keysRead(.failure(fault), of: 0, now: empty.now)
        let refused = register(empty, token)
        #expect(refused.status == 503 && !refused.fields.isEmpty)
        #expect(sink.lines.contains { $0.contains("so phones that register with a bearer token get 503") })
    }

    // MARK: Calls

    /// Whether one of the actions contains the text, as a string or as bytes.
    private static func shows(_ text: String, _ actions: [ProxyAction]) -> Bool {
        var all = ""
        dump(actions, to: &all)
        let bytes = text.utf8.prefix(10).map(String.init).joined(separator: ", ")
        return all.contains(text) || all.contains(bytes) || "\(actions)".contains(text) || "\(actions)".contains(bytes)
    }

    @Test func `a phone calls with its token, which goes no further`() throws {
        let sink = MemoryLogSink()
        let bench = try Self.bench(log: Log(level: .debug, sink: sink) { UnixTime(seconds: 0) })
        let token = try TestTokens.token(by: TestTokens.rsa())
        let out = bench.receive(
            bench.phoneText(extra: ["Proxy-Authorization: Bearer \(token)", "Authorization: bearer \(token)"]),
            on: Self.flow())
        let sent = out.bytes.map { String(decoding: $0, as: UTF8.self) }
        #expect(sent.contains { $0.hasPrefix("INVITE ") && $0.contains("P-Asserted-Identity: <sip:bob@example.net>") })
        let secret = String(token.split(separator: ".")[2])
        // The actions include everything that goes to the journal and to the timeline.
        #expect(!Self.shows(secret, out) && !sent.contains { $0.contains(secret) })
        #expect(!sink.lines.contains { $0.contains(secret) })
        let other = bench.receive(
            bench.phoneText(from: "sip:eve@example.net", callID: "p2", extra: ["Proxy-Authorization: Bearer \(token)"]),
            on: Self.flow())
        #expect(story(other).contains { $0.hasPrefix("403 invite") })
        let forgery = try forged()
        let bad = bench.receive(
            bench.phoneText(callID: "p3", extra: ["Proxy-Authorization: Bearer \(forgery)"]), on: Self.flow())
        let challenge = try #require(sentResponse(bad))
        #expect(challenge.status == .proxyAuthenticationRequired)
        #expect(challenge.frame.values(of: .proxyAuthenticate).first?.string.contains("invalid_token") == true)
    }

    @Test func `tokens in requests of trusted peers go no further`() throws {
        let bench = try Self.bench()
        #expect(register(bench, try TestTokens.token(by: TestTokens.rsa())).status == 200)
        let out = bench.invite(extra: ["Proxy-Authorization: Bearer a.PLANTED.c", "Authorization: Bearer a.PLANTED.c"])
        #expect(story(out).contains { $0.contains("invite") })
        #expect(!Self.shows("PLANTED", out))
        #expect(!out.bytes.contains { String(decoding: $0, as: UTF8.self).contains("PLANTED") })
    }
}
