import Crypto
import LoopTesting
import ProviderTesting
import Registration
import Testing
import TestSupport
import Timekeeping

@testable import UserSources

@Suite(.timeLimit(.minutes(2))) struct `Users of an HTTP server` {
    private func bench(
        _ more: String = "", tls: TLSContext? = nil,
        _ reply: @escaping @Sendable (FakeProvider.Request) -> FakeProvider.Reply,
        asking body: (SourceBench, FakeProvider) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let server = FakeProvider(loop) { request, _ in reply(request) }
            let url = try await server.listen(tls: tls)
            let bench = try await SourceBench("url: \"\(url)/sip\"\n\(more)", on: loop)
            try await body(bench, server)
            await bench.close()
            await server.close()
        }
    }

    @Test(arguments: [
        (200, #"{"ha1": "abc"}"#, "MD5 abc"),
        (
            200, #"{"password": "s3cret", "username": "bob", "realm": "r", "extra": [1]}"#,
            "password s3cret, realm r, name bob"
        ),
        (200, #"{"ha1_sha256": "x", "ha1": null}"#, "SHA-256 x"), (404, "", "unknown"), (404, "<html>", "unknown"),
        (200, "", "unusable: the server answers 200 without a JSON object"),
        (200, "<html>Welcome</html>", "unusable: the server answers 200 without a JSON object"),
        (200, "[]", "unusable: the server answers 200 without a JSON object"),
        (200, "{}", "unusable: the server answers 200 without password, ha1, ha1_sha256 or ha1_sha512_256"),
        (200, #"{"ha1": 7}"#, "unusable: the server answers 200 without password, ha1, ha1_sha256 or ha1_sha512_256"),
        (204, "", "unusable: the server answers 204"), (302, "", "unusable: the server answers 302"),
        (403, "", "away: the server answers 403"), (503, "", "away: the server answers 503"),
        (400, "", "unusable: the server answers 400"), (500, #"{"ha1": "abc"}"#, "unusable: the server answers 500"),
    ])
    func `only 200 with a secret is a user, and only 404 is nobody`(_ status: Int, _ body: String, _ wanted: String)
        async throws
    {
        try await bench { _ in
            .answer(status, body, headers: status == 302 ? "Location: http://127.0.0.1:1/\r\n" : "")
        } asking: { (bench: SourceBench, _: FakeProvider) async throws in
            #expect(try await bench.ask("bob") == wanted)
        }
    }

    @Test func `an answer of ten megabytes is not read`() async throws {
        try await bench { _ in
            .answer(200, #"{"ha1": "\#(String(repeating: "x", count: 10_000_000))"}"#)
        } asking: { (bench: SourceBench, _: FakeProvider) async throws in
            #expect(try await bench.ask("bob") == "unusable: the answer is too long")
        }
        try await bench { _ in
            .answer(200, #"{"ha1": "\#(String(repeating: "x", count: 4_000))"}"#)
        } asking: { (bench: SourceBench, _: FakeProvider) async throws in
            #expect(try await bench.ask("bob") == "unusable: the answer is too long")
        }
    }

    @Test func `bytes that are no answer concern one user, and a server that is gone concerns all`() async throws {
        try await bench { _ in
            .close
        } asking: { (bench: SourceBench, server: FakeProvider) async throws in
            #expect(try await bench.ask("bob").hasPrefix("unusable: "))
            await server.close()
            #expect(try await bench.ask("bob").hasPrefix("away: "))
        }
        try await bench { _ in
            .bytes("nonsense\r\n\r\n", closes: true)
        } asking: { (bench: SourceBench, _: FakeProvider) async throws in
            #expect(try await bench.ask("bob").hasPrefix("unusable: "))
        }
    }

    @Test func `POST carries JSON, and is signed`() async throws {
        let folder = try TemporaryFolder()
        let secret = try folder.write(Array("k3y\n".utf8), to: "secret")
        try await bench("secret-file: \(secret)") { _ in
            .answer(404)
        } asking: { (bench: SourceBench, server: FakeProvider) async throws in
            _ = try await bench.ask("o\"bob\u{7}")
            let request = try await server.requests.next()
            #expect(request.text.hasPrefix("POST /sip HTTP/1.1"))
            #expect(request.body == #"{"user":"o\"bob\u0007","domain":"example.net","realm":"example.net"}"#)
            let text = try #require(request.headers["sippushd-signature"])
            let signature = try #require(RequestSignature(Array(text.utf8)))
            let body = Array(request.body.utf8)
            #expect(try signature.isValid(for: body, secrets: [Array("k3y".utf8)], now: signature.time))
            let isOfOther = try signature.isValid(for: body, secrets: [Array("other".utf8)], now: signature.time)
            #expect(!isOfOther)
        }
        folder.remove()
    }

    @Test func `GET carries the user in the URL, and the URL is signed`() async throws {
        let folder = try TemporaryFolder()
        let secret = try folder.write(Array("k3y".utf8), to: "secret")
        try await bench("method: GET\nsecret-file: \(secret)") { _ in
            .answer(404)
        } asking: { (bench: SourceBench, server: FakeProvider) async throws in
            _ = try await bench.ask("a&domain=evil b'; DROP")
            let request = try await server.requests.next()
            #expect(
                request.path
                    == "/sip?user=a%26domain%3Devil%20b%27%3B%20DROP&domain=example.net&realm=example.net")
            let text = try #require(request.headers["sippushd-signature"])
            let signature = try #require(RequestSignature(Array(text.utf8)))
            let url = "http://\(try #require(request.headers["host"]))\(request.path)"
            #expect(try signature.isValid(for: Array(url.utf8), secrets: [Array("k3y".utf8)], now: signature.time))
        }
        folder.remove()
    }

    @Test func `a secret that cannot be read makes the source away`() async throws {
        try await bench("secret-file: /nowhere/secret") { _ in
            .answer(404)
        } asking: { (bench: SourceBench, server: FakeProvider) async throws in
            #expect(try await bench.ask("bob").hasPrefix("away: "))
            #expect(await server.requestCount() == 0)
        }
    }
}
