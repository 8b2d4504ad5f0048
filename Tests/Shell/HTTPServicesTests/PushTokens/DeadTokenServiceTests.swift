import ProxyPolicy
import Addressing
import Bytes
import Collections
import Crypto
import Foundation
import HTTPClient
import HTTPSemantics
import LoopTesting
import Persistence
import ProxyCore
import PushDelivery
import Reactor
import Storage
import StoreTesting
import Telemetry
import Testing
import Timekeeping

@testable import HTTPServices

@Suite("Dead tokens over HTTP", .timeLimit(.minutes(10)))
struct DeadTokenServiceTests {
    private struct Page: Decodable {
        struct Token: Decodable {
            let token: String
            let provider: String
            let param: String
            let since: Int64
            let recorded: Int64
            let source: String
        }

        let tokens: [Token]
        let next: Int64?
    }

    /// A client of the HTTP API; its daemon has a store.
    private struct Client {
        let session: HTTPSession
        let endpoint: Endpoint
        let key: String
        let folder: StoreFolder
        let kept: Kept

        func get(_ target: String, accept: String? = nil, key: String? = nil) async throws -> HTTPClientResponse {
            var headers = [HTTPField("Authorization", "Bearer \(key ?? self.key)")]
            if let accept { headers.append(HTTPField("Accept", accept)) }
            return try await session.response(
                to: HTTPClientRequest(url: "http://\(endpoint)\(target)", headers: headers))
        }

        func page(_ query: String = "") async throws -> Page {
            let response = try await get("/v1/dead-tokens\(query)")
            #expect(response.status == 200)
            return try JSONDecoder().decode(Page.self, from: Data(response.body))
        }
    }

    /// The parts of a daemon that must stay alive during the test. The type is `@unchecked Sendable`, because only the
    /// loop's thread uses it.
    private struct Kept: @unchecked Sendable {
        let api: APIService
        let service: DeadTokenService
        let store: DatabaseStore
    }

    private static func dead(
        _ prid: String, _ provider: PushProvider = .fcm, param: String = "p", since: Int64 = 1000,
        recorded: Int64 = 2000, source: DeadToken.Source = .provider
    ) -> DeadToken {
        DeadToken(
            token: PushToken(provider: provider, param: ByteString(param), prid: ByteString(prid)),
            since: UnixTime(seconds: since), recordedAt: UnixTime(seconds: recorded), source: source,
            domain: ByteString("example.net"))
    }

    private func withClient(
        _ dead: [DeadToken], age: Duration = .seconds(3600), _ body: (Client, EventLoop) async throws -> Void
    ) async throws {
        let folder = try StoreFolder()
        let writer = try ObservedWriter(folder)
        if !dead.isEmpty { #expect(await writer.write(dead.map { .engine(.deadToken($0)) }) == true) }
        writer.writer.stop()
        let (reader, other) = (try APIKeySecret.make(), try APIKeySecret.make())
        try await withLoop { loop in
            let (kept, endpoint, session) = try await Bench(loop).run { bench in
                let store = try folder.open(loop: bench.loop, log: .silent)
                var settings = APISettings()
                settings.listen = [Endpoint(.loopbackV4, 0)]
                let date = UnixTime(milliseconds: 0)
                let keys = APIKeyRing(
                    [
                        APIKey(name: "reader", hash: reader.hash, scopes: [.tokensRead], createdAt: date),
                        APIKey(name: "other", hash: other.hash, scopes: [.tokensReport], createdAt: date),
                    ].compactMap(\.self))
                let api = APIService(settings.access(LimitSettings()), loop: bench.loop, keys: keys, log: .silent)
                let service = try DeadTokenService(store: store, loop: bench.loop, age: age)
                service.register(in: &api.router)
                try api.listen()
                return (
                    Kept(api: api, service: service, store: store), try #require(api.endpoints.first),
                    HTTPSession(on: bench.loop)
                )
            }
            let client = Client(
                session: session, endpoint: endpoint, key: reader.text, folder: folder, kept: kept)
            try await body(client, loop)
            let response = try await client.get("/v1/dead-tokens", key: other.text)
            #expect(response.status == 403)
            await Bench(loop).run { _ in
                session.close()
                kept.api.close()
                kept.store.close()
            }
        }
    }

    @Test func `tokens are listed as they were registered, in the order of their death`() async throws {
        try await withClient([
            Self.dead("a\"b", .fcm, since: 1000),
            Self.dead("Ff:voip", .apnsDevelopment, param: "T.b", source: .feedback),
        ]) { client, _ in
            let page = try await client.page()
            #expect(page.tokens.map(\.token) == ["a\"b", "Ff:voip"])
            #expect(page.tokens.map(\.provider) == ["fcm", "apns.dev"])
            #expect(page.tokens.map(\.param) == ["p", "T.b"])
            #expect(page.tokens.map(\.since) == [1000, 1000])
            #expect(page.tokens.map(\.recorded) == [2000, 2000])
            #expect(page.tokens.map(\.source) == ["provider", "feedback"])
            #expect(page.next == nil)
        }
    }

    @Test func `the same query gives the same answer, and since leaves out earlier records`() async throws {
        // The second token had been dead for long when the daemon recorded it. A client that asks for newly recorded tokens must still
        // get the token that died long ago.
        try await withClient([
            Self.dead("old", since: 1, recorded: 100), Self.dead("late", since: 2, recorded: 200),
            Self.dead("new", since: 200, recorded: 300),
        ]) { client, _ in
            for _ in 0..<2 {
                let all = try await client.page()
                #expect(all.tokens.map(\.token) == ["old", "late", "new"])
                let recent = try await client.page("?since=200")
                #expect(recent.tokens.map(\.token) == ["late", "new"])
            }
            let none = try await client.page("?since=301")
            #expect(none.tokens.isEmpty)
        }
    }

    @Test func `pages follow each other without gap and repetition`() async throws {
        let all = (0..<25).map { "t\($0)" }
        try await withClient(all.map { Self.dead($0) }) { client, _ in
            var found: [String] = []
            var next: Int64?
            var count = 0
            repeat {
                let page = try await client.page("?limit=10&after=\(next ?? 0)")
                found += page.tokens.map(\.token)
                next = page.next
                count += 1
            } while next != nil && count < 10
            #expect(found == all)
            #expect(count == 3)
            let response = try await client.get("/v1/dead-tokens?limit=10&since=5")
            let link = "</v1/dead-tokens?since=5&after=10&limit=10>; rel=\"next\""
            #expect(response.header("link") == link)
        }
    }

    @Test(arguments: ["", "?format=binary"])
    func `in Apple's form there are Apple's tokens of 32 bytes only`(query: String) async throws {
        let hex = (0..<32).map { $0 < 16 ? "0\(String($0, radix: 16))" : String($0, radix: 16) }.joined()
        let other = String(repeating: "AB", count: 32)
        try await withClient([
            Self.dead(hex, .apns, param: "TEAM.app", since: 1_623_753_491), Self.dead("fcm-token", .fcm),
            Self.dead("\(other):remote&\(hex):voip", .apns, param: "TEAM.app.remote&voip", since: 2_147_483_649),
            Self.dead("abcd", .apns, param: "TEAM.app"),
        ]) { client, _ in
            let response = try await client.get(
                "/v1/dead-tokens\(query)", accept: query.isEmpty ? "application/octet-stream" : nil)
            #expect(response.header("content-type") == "application/octet-stream")
            let token = Array(UInt8(0)..<32)
            let record: [UInt8] = [0x60, 0xc8, 0x83, 0x13, 0, 0x20] + token
            let pair: [UInt8] =
                [0x80, 0, 0, 1, 0, 0x20] + [UInt8](repeating: 0xab, count: 32) + [0x80, 0, 0, 1, 0, 0x20] + token
            #expect(response.body == record + pair)
        }
    }

    @Test(arguments: [
        "since=-1", "since=x", "since=9223372036854775807", "limit=0", "limit=10001", "after=-1", "format=xml",
    ])
    func `values that are no numbers are refused`(query: String) async throws {
        try await withClient([]) { client, _ in
            let response = try await client.get("/v1/dead-tokens?\(query)")
            #expect(response.status == 400)
        }
    }

    @Test func `old tokens are forgotten, and numbers are not given twice`() async throws {
        try await withClient([Self.dead("old"), Self.dead("older")]) { client, loop in
            await Bench(loop).run { _ in client.kept.service.prune() }
            // The test waits for a later change, because changes are written in the order of submission.
            let isWritten = Mailbox<Bool>()
            await Bench(loop).run { _ in
                client.kept.store.record([.deadToken(Self.dead("new", recorded: 4_000_000_000))])
                client.kept.store.commit([.note(key: "k", value: "v")]) { isWritten.put($0.isStored) }
            }
            let wasWritten = try await isWritten.next()
            #expect(wasWritten)
            for query in ["", "?after=2"] {
                let page = try await client.page(query)
                #expect(page.tokens.map(\.token) == ["new"])
            }
        }
    }

    @Test func `of too many the newest stay`() async throws {
        let folder = try StoreFolder()
        let writer = try ObservedWriter(folder)
        #expect(
            await writer.write(
                (0..<10).map { .engine(.deadToken(Self.dead("t\($0)"))) } + [
                    .service(.pruneDeadTokens(before: UnixTime(seconds: 0), keeping: 3))
                ]) == true)
        writer.writer.stop()
        let store = try folder.open(loop: try EventLoop(), log: .silent)
        let left = try await store.deadTokens(since: UnixTime(seconds: 0), after: .beginning, limit: 10, in: nil)
        #expect(left.elements.map(\.token.prid.string) == ["t7", "t8", "t9"])
        #expect(left.next == nil)
        store.close()
    }

    @Test func `a store that cannot be read is reported`() async throws {
        try await withClient([Self.dead("t")]) { client, _ in
            let other = try Connection(path: client.folder.path, options: ConnectionOptions())
            try other.execute("ALTER TABLE dead_token RENAME TO away")
            let response = try await client.get("/v1/dead-tokens")
            #expect(response.status == 503)
            #expect(response.header("retry-after") == "5")
        }
    }
}
