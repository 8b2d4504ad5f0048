import Bytes
import Crypto
import JSON
import LoopTesting
import ProviderTesting
import PushDelivery
import PushSending
import Reactor
import Settings
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Runs a test with a push service and a provider whose answers come from `reply`.
private func withService(
    changing change: (inout PushSettings) -> Void = { _ in },
    reply: @escaping @Sendable (FakeProvider.Request, Int) -> FakeProvider.Reply,
    _ body: (PushBench, FakeProvider) async throws -> Void
) async throws {
    try await withFolder { folder in
        try await withLoop { loop in
            let provider = FakeProvider(loop, reply: reply)
            let url = try await provider.listen()
            var settings = try folder.settings(url)
            change(&settings)
            let bench = PushBench(loop)
            try await bench.start(settings)
            try await body(bench, provider)
            await bench.close()
            await provider.close()
        }
    }
}

private func isToken(_ request: FakeProvider.Request) -> Bool { request.path == "/token" }

private let grant = #"{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}"#

@Suite("Push service", .timeLimit(.minutes(10)))
struct PushServiceTests {
    // MARK: Providers

    @Test func `Apple gets a signed token, which is used again`() async throws {
        try await withService(reply: { _, _ in
            .answer(200, headers: "apns-id: a-1\r\n")
        }) { (bench, provider) async throws in
            await bench.send(1, to: token(.apns, "AB"))
            let (id, outcome) = try await bench.outcomes.next()
            #expect(id == PushID(rawValue: 1))
            #expect(outcome == .accepted(ByteString("a-1")))
            let request = try await provider.requests.next()
            #expect(request.path == "/3/device/\(String(repeating: "0", count: 62))ab")
            #expect(request.headers["apns-topic"] == "com.example.phone")
            #expect(request.body.hasPrefix(#"{"aps":{"badge":"1"},"acme":{"#))
            let authorization = try #require(request.headers["authorization"])
            #expect(authorization.hasPrefix("bearer "))
            let parts = authorization.dropFirst(7).split(separator: ".").map { Array($0.utf8) }
            try #require(parts.count == 3)
            let header = try JSONValue(try #require(Base64.url.decode(parts[0])))
            #expect(header == (try JSONValue(Array(#"{"alg":"ES256","kid":"ABC123DEFG"}"#.utf8))))
            #expect(try JSONValue(try #require(Base64.url.decode(parts[1])))["iss"]?.string == "DEF123GHIJ")
            let key = try ProviderKey(.bytes(Array(TestKeys.rfc7515P256.utf8)), for: .es256)
            let signature = try #require(Base64.url.decode(parts[2]))
            #expect(key.isValid(signature, for: parts[0] + Array(".".utf8) + parts[1]))

            await bench.send(2, to: token(.apns, "AC"), .missedCall)
            _ = try await bench.outcomes.next()
            #expect(try await provider.requests.next().headers["authorization"] == authorization)
            let counters = await bench.counters
            let report = await bench.report("apns")
            #expect(report.sent == 2)
            #expect(report.accepted == 2)
            #expect(counters[.pushesInFlight] == 0)
        }
    }

    @Test func `Google's access token is fetched once for all who wait`() async throws {
        try await withService(reply: { request, _ in
            isToken(request) ? .answer(200, grant) : .answer(200, #"{"name":"projects/p/messages/1"}"#)
        }) { (bench, provider) async throws in
            for number in 1...10 { await bench.send(UInt64(number), to: token(.fcm, "T\(number)")) }
            for _ in 1...10 {
                #expect(try await bench.outcomes.next().1 == .accepted(ByteString("projects/p/messages/1")))
            }
            let first = try await provider.requests.next()
            #expect(first.path == "/token")
            #expect(
                first.body.hasPrefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=ey"))
            for _ in 1...10 {
                let push = try await provider.requests.next()
                #expect(push.path == "/v1/projects/my-project/messages:send")
                #expect(push.headers["authorization"] == "Bearer ya29.x")
            }
            #expect(await provider.requestCount() == 11)
        }
    }

    @Test func `Google's access token is ready before the first push, and is renewed before its end`() async throws {
        try await withService(reply: { request, before in
            // Half of the first token's lifetime of one second is over.
            isToken(request)
                ? .answer(200, before == 0 ? #"{"access_token":"ya29.a","expires_in":1}"# : grant) : .answer(200)
        }) { (bench, provider) async throws in
            await bench.keepReady()
            #expect(try await provider.requests.next().path == "/token")
            #expect(try await provider.requests.next().path == "/token")
            // The test tries again, because the answer to the second request may not have arrived yet.
            var credential: String?
            for number in 1...100 where credential != "Bearer ya29.x" {
                await bench.send(UInt64(number), to: token(.fcm, "T"))
                #expect(try await bench.outcomes.next().1.isAccepted)
                credential = try await provider.requests.next().headers["authorization"]
            }
            #expect(credential == "Bearer ya29.x")
        }
    }

    @Test func `the grant is signed for the token service`() async throws {
        try await withService(reply: { request, _ in
            isToken(request) ? .answer(200, grant) : .answer(200)
        }) { (bench, provider) async throws in
            await bench.send(1, to: token(.fcm, "T"))
            let body = try await provider.requests.next().body
            let parts = try #require(body.split(separator: "assertion=").last).split(separator: ".").map {
                Array($0.utf8)
            }
            try #require(parts.count == 3)
            let claims = try JSONValue(try #require(Base64.url.decode(parts[1])))
            #expect(claims["iss"]?.string == "push@my-project.iam.gserviceaccount.com")
            #expect(claims["aud"]?.string == "https://oauth2.googleapis.com/token")
            #expect(claims["scope"]?.string == "https://www.googleapis.com/auth/firebase.messaging")
            let (issued, end) = (try #require(claims["iat"]?.integer), try #require(claims["exp"]?.integer))
            #expect(end - issued == 3600)
            let key = try ProviderKey(.bytes(Array(TestKeys.rsa2048.utf8)), for: .rs256)
            #expect(key.isValid(try #require(Base64.url.decode(parts[2])), for: parts[0] + Array(".".utf8) + parts[1]))
        }
    }

    @Test func `the old interface gets the server key and names new tokens`() async throws {
        try await withService(
            changing: {
                $0.fcm.bodyFormat = .legacy
                $0.fcm.serverKey = Secret("AAAA")
            },
            reply: { _, _ in .answer(200, #"{"results":[{"message_id":"0:1","registration_id":"T2"}]}"#) }
        ) { (bench, provider) async throws in
            await bench.send(1, to: token(.fcm, "T1"))
            #expect(try await bench.outcomes.next().1 == .acceptedWithNewToken(ByteString("T2")))
            let request = try await provider.requests.next()
            #expect(request.path == "/fcm/send")
            #expect(request.headers["authorization"] == "key=AAAA")
            #expect(request.headers["content-type"] == "application/json")
            #expect(request.body.hasSuffix(#""time_to_live":28}"#))
        }
    }

    @Test func `a dead token is reported with its time`() async throws {
        try await withService(reply: { _, _ in
            .answer(410, #"{"reason":"Unregistered","timestamp":1623753691000}"#)
        }) { (bench, provider) async throws in
            await bench.send(1, to: token(.apns, "AB"))
            #expect(try await bench.outcomes.next().1 == .tokenDead(since: UnixTime(seconds: 1_623_753_691)))
            #expect(await provider.requestCount() == 1)
        }
    }

    @Test func `a bad token counts once Apple has accepted another`() async throws {
        try await withService(reply: { request, _ in
            request.path.hasSuffix("bad") ? .answer(400, #"{"reason":"BadDeviceToken"}"#) : .answer(200)
        }) { (bench, _) async throws in
            await bench.send(1, to: token(.apns, "BAD"))
            #expect(try await bench.outcomes.next().1 == .foreignToken("BadDeviceToken"))
            await bench.send(2, to: token(.apns, "AB"))
            #expect(try await bench.outcomes.next().1.isAccepted)
            await bench.send(3, to: token(.apns, "BAD"))
            #expect(try await bench.outcomes.next().1 == .tokenDead(since: nil))
        }
    }

    // MARK: Tries

    @Test func `a failing try is repeated under the same id`() async throws {
        try await withService(reply: { _, count in
            count == 0 ? .answer(503) : .answer(200)
        }) { (bench, provider) async throws in
            await bench.send(1, to: token(.apns, "AB"))
            #expect(try await bench.outcomes.next().1.isAccepted)
            let first = try await provider.requests.next()
            let second = try await provider.requests.next()
            #expect(first.headers["apns-id"] == second.headers["apns-id"])
            #expect(first.headers["apns-id"]?.count == 36)
            #expect(await bench.report("apns").retried == 1)
        }
    }

    @Test func `a connection that breaks is a failing try`() async throws {
        try await withService(reply: { _, count in
            count == 0 ? .close : .answer(200)
        }) { (bench, provider) async throws in
            await bench.send(1, to: token(.apns, "AB"))
            #expect(try await bench.outcomes.next().1.isAccepted)
            #expect(await provider.requestCount() >= 2)
        }
    }

    @Test func `no attempt is made after the deadline`() async throws {
        try await withService(reply: { _, _ in
            .answer(503, headers: "retry-after: 1\r\n")
        }) { (bench, provider) async throws in
            await bench.send(1, to: token(.apns, "AB"), life: .milliseconds(900))
            #expect(try await bench.outcomes.next().1 == .retry(after: .seconds(1)))
            #expect(await provider.requestCount() == 1)
        }
    }

    @Test func `a provider that never answers is given up in time`() async throws {
        try await withService(
            changing: { $0.requestTimeout = .milliseconds(100) },
            reply: { _, _ in .silence }
        ) { (bench, provider) async throws in
            await bench.send(1, to: token(.apns, "AB"), life: .milliseconds(300))
            #expect(try await bench.outcomes.next().1 == .retry(after: nil))
            #expect(await bench.counters[.pushesInFlight] == 0)
            #expect(await provider.requestCount() == 1)
        }
    }

    @Test func `a provider that is not there fails the push`() async throws {
        try await withService(reply: { _, _ in .silence }) { (bench, provider) async throws in
            await provider.close()
            await bench.send(1, to: token(.apns, "AB"), life: .milliseconds(200))
            #expect(try await bench.outcomes.next().1 == .retry(after: nil))
        }
    }

    // MARK: Credentials

    @Test func `a fresh provider token that is refused is not made again and again`() async throws {
        try await withService(reply: { _, _ in
            .answer(403, #"{"reason":"ExpiredProviderToken"}"#)
        }) { (bench, provider) async throws in
            await bench.send(1, to: token(.apns, "AB"))
            guard case .credentialsRefused = try await bench.outcomes.next().1 else { return #expect(Bool(false)) }
            let first = try await provider.requests.next()
            let second = try await provider.requests.next()
            #expect(first.headers["authorization"] == second.headers["authorization"])
            #expect(await provider.requestCount() == 2)
        }
    }

    @Test func `a token service that refuses ends all pushes that wait, and gets no request for a while`() async throws
    {
        try await withService(reply: { _, _ in
            .answer(400, #"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#)
        }) { (bench, provider) async throws in
            for number in 1...3 { await bench.send(UInt64(number), to: token(.fcm, "T\(number)")) }
            for _ in 1...3 {
                guard case .credentialsRefused(let words) = try await bench.outcomes.next().1 else {
                    return #expect(Bool(false))
                }
                #expect(
                    words.hasPrefix("the token service 127.0.0.1:") && words.hasSuffix(" says: Invalid JWT Signature."))
            }
            await bench.send(4, to: token(.fcm, "T4"))
            guard case .credentialsRefused = try await bench.outcomes.next().1 else { return #expect(Bool(false)) }
            #expect(await provider.requestCount() == 1)
        }
    }

    // MARK: Queues

    @Test func `a silent provider does not delay another`() async throws {
        try await withService(
            changing: {
                $0.requestTimeout = .seconds(60)
                $0.apns.limits.requests = 1
            },
            reply: { request, _ in
                isToken(request) ? .answer(200, grant) : request.path.hasPrefix("/3/") ? .silence : .answer(200)
            }
        ) { (bench, _) async throws in
            for number in 1...5 { await bench.send(UInt64(number), to: token(.apns, "AB")) }
            await bench.send(6, to: token(.fcm, "T"))
            let (id, outcome) = try await bench.outcomes.next()
            #expect(id == PushID(rawValue: 6))
            #expect(outcome.isAccepted)
            let counters = await bench.counters
            #expect(counters[.pushesInFlight] == 1)
            #expect(counters[.pushQueue] == 4)
        }
    }

    @Test func `a sent push is not withdrawn, and the provider's answer makes room for the next`()
        async throws
    {
        try await withService(
            changing: {
                $0.requestTimeout = .seconds(60)
                $0.apns.limits.requests = 1
            },
            reply: { _, _ in .answer(200) }
        ) { (bench, provider) async throws in
            // The push and its cancellation are ordered in one turn of the loop, so that the provider cannot answer in
            // between.
            await bench.sendAndCancel(1, to: token(.apns, "AA"))
            await bench.send(2, to: token(.apns, "BB"))
            let taken = try await bench.outcomes.next()
            #expect(taken.0 == PushID(rawValue: 1) && taken.1.isAccepted)
            #expect(try await bench.outcomes.next().0 == PushID(rawValue: 2))
            #expect(await bench.report("apns").withdrawn == 0)
            #expect(await provider.requestCount() == 2)
        }
    }

    @Test func `a push that finds the queue full is refused`() async throws {
        try await withService(
            changing: {
                $0.requestTimeout = .seconds(60)
                $0.apns.limits.requests = 1
                $0.apns.limits.queue = 1
            },
            reply: { _, _ in .silence }
        ) { (bench, _) async throws in
            for number in 1...3 { await bench.send(UInt64(number), to: token(.apns, "AB")) }
            let (id, outcome) = try await bench.outcomes.next()
            #expect(id == PushID(rawValue: 3))
            #expect(outcome == .retry(after: nil))
        }
    }

    @Test func `a push that cannot be rendered ends, and lets the next go`() async throws {
        try await withService(
            changing: { $0.apns.limits.requests = 1 },
            reply: { _, _ in .answer(200) }
        ) { (bench, _) async throws in
            await bench.send(1, to: token(.apns, "AB:voip"), .missedCall)
            await bench.send(2, to: token(.apns, "AB"), .missedCall)
            let (id, outcome) = try await bench.outcomes.next()
            #expect(id == PushID(rawValue: 1))
            #expect(outcome == .noSuitableToken)
            #expect(try await bench.outcomes.next().1.isAccepted)
        }
    }

    @Test func `a refusal is reported although the push was withdrawn`() async throws {
        try await withService(
            changing: { $0.apns.topics = [] },
            reply: { _, _ in .answer(200) }
        ) { (bench, _) async throws in
            await bench.sendAndCancel(1, to: token(.apns, "AB"))
            await bench.send(2, to: PushToken(provider: .apns, param: ByteString("T.b"), prid: token(.apns, "AB").prid))
            let refused = try await bench.outcomes.next()
            #expect(refused.0 == PushID(rawValue: 1) && !refused.1.isAccepted)
            #expect(try await bench.outcomes.next().0 == PushID(rawValue: 2))
        }
    }

    @Test func `a thousand pushes at once all arrive`() async throws {
        try await withService(reply: { _, _ in .answer(200) }) { (bench, provider) async throws in
            await bench.send(1...1000, to: token(.apns, "AB"))
            for _ in 1...1000 { #expect(try await bench.outcomes.next().1.isAccepted) }
            #expect(await provider.requestCount() == 1000)
        }
    }

    // MARK: Start

    @Test func `a key that is missing or does not suit stops the start with a sentence`() async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                let bench = PushBench(loop)
                var settings = try folder.settings("http://127.0.0.1:1")
                settings.apns.keyFile = folder.path + "/none.p8"
                await #expect(throws: PushSetupError.self) { try await bench.start(settings) }
                settings = try folder.settings("http://127.0.0.1:1")
                settings.apns.keyFile = settings.fcm.serviceAccountFile
                await #expect(throws: PushSetupError.self) { try await bench.start(settings) }
                settings = try folder.settings("http://127.0.0.1:1")
                settings.fcm.serviceAccountFile = settings.apns.keyFile
                await #expect(throws: PushSetupError.self) { try await bench.start(settings) }
            }
        }
    }
}
