import Bytes
import LoopTesting
import ProviderTesting
import PushDelivery
import Settings
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Runs a test with a push service for one Huawei app.
private func withService(
    log: Log = .silent, secret: String = "s&=é",
    reply: @escaping @Sendable (FakeProvider.Request, Int) -> FakeProvider.Reply,
    _ body: (PushBench, FakeProvider) async throws -> Void
) async throws {
    try await withLoop { loop in
        let provider = FakeProvider(loop, reply: reply)
        let url = try await provider.listen()
        var settings = PushSettings()
        settings.hms.enabled = true
        settings.hms.appID = "100123456"
        settings.hms.clientSecret = Secret(secret)
        settings.hms.endpoint = url
        settings.hms.tokenEndpoint = url + "/oauth2/v3/token"
        let bench = PushBench(loop)
        try await bench.start(settings, log: log)
        try await body(bench, provider)
        await bench.close()
        await provider.close()
    }
}

private func isToken(_ request: FakeProvider.Request) -> Bool { request.path == "/oauth2/v3/token" }

private let device = PushToken(provider: .hms, param: ByteString("100123456"), prid: ByteString("T"))
private let grant = #"{"access_token":"at-1","expires_in":3600,"token_type":"Bearer"}"#
private let accepted = #"{"code":"80000000","msg":"Success","requestId":"1"}"#

@Suite("Push service for Huawei", .timeLimit(.minutes(10)))
struct HMSServiceTests {
    @Test func `the access token is fetched once for all who wait`() async throws {
        try await withService(reply: { request, _ in .answer(200, isToken(request) ? grant : accepted) }) {
            (bench, provider) async throws in
            for number in 1...10 { await bench.send(UInt64(number), to: device) }
            for _ in 1...10 { #expect(try await bench.outcomes.next().1 == .accepted(ByteString("1"))) }
            let first = try await provider.requests.next()
            #expect(isToken(first) && first.headers["content-type"] == "application/x-www-form-urlencoded")
            #expect(
                first.body == "grant_type=client_credentials&client_id=100123456&client_secret=s%26%3D%C3%A9")
            for _ in 1...10 {
                let push = try await provider.requests.next()
                #expect(push.path == "/v1/100123456/messages:send")
                #expect(push.headers["authorization"] == "Bearer at-1")
            }
            #expect(await provider.requestCount() == 11)
        }
    }

    @Test func `a wrong secret ends the push with one line, and without the secret`() async throws {
        let sink = MemoryLogSink()
        try await withService(
            log: Log(level: .info, sink: sink) { UnixTime(milliseconds: 0) }, secret: "very-secret-text",
            reply: { _, _ in
                .answer(400, #"{"error":1101,"sub_error":20044,"error_description":"bad very-secret-text"}"#)
            }
        ) { (bench, _) async throws in
            await bench.send(1, to: device)
            await bench.send(2, to: device)
            for _ in 1...2 {
                guard case .credentialsRefused(let reason) = try await bench.outcomes.next().1 else {
                    Issue.record("a wrong secret is no fault of the credentials")
                    continue
                }
                #expect(reason.contains("bad …") && !reason.contains("very-secret-text"))
            }
        }
        #expect(sink.lines.filter { $0.contains("Huawei issued no access token") }.count == 1)
        #expect(!sink.lines.contains { $0.contains("very-secret-text") })
    }

    /// If the provider repeats the access token in an answer, outcomes and log lines must not contain the token.
    @Test func `an access token in the provider's words is struck`() async throws {
        try await withService(reply: { request, _ in
            isToken(request)
                ? .answer(200, #"{"access_token":"access-token-0123456789","expires_in":3600}"#)
                : .answer(200, #"{"code":"80300002","msg":"no right for access-token-0123456789"}"#)
        }) { (bench, _) async throws in
            await bench.send(1, to: device)
            #expect(try await bench.outcomes.next().1 == .credentialsRefused("80300002: no right for …"))
        }
    }
}
