import Bytes
import Crypto
import Persistence
import Storage
import StoreTesting
import Testing
import Timekeeping

@testable import HTTPServices

@Suite("API keys")
struct APIKeyTests {
    private let date = UnixTime(milliseconds: 1_700_000_000_123)

    private func key(_ name: String, _ secret: APIKeySecret, _ scopes: Set<APIScope> = [.tokensRead]) throws -> APIKey {
        try #require(APIKey(name: name, hash: secret.hash, scopes: scopes, createdAt: date))
    }

    @Test func `a key is 32 random bytes behind a prefix`() throws {
        let secret = try APIKeySecret.make()
        #expect(secret.text.hasPrefix("spd_"))
        #expect(Base64.url.decode(Array(secret.text.dropFirst(4).utf8))?.count == 32)
        #expect(try APIKeySecret.make().text != secret.text)
        #expect(secret.hash == HashAlgorithm.sha256.digest(of: Array(secret.text.utf8)))
    }

    @Test(arguments: ["a", "app-server_1.x", "A9", String(repeating: "n", count: 64)])
    func `plain names are accepted`(name: String) { #expect(APIKey.isName(name)) }

    @Test(arguments: ["", ".", "..", "a b", "a/b", "a\nb", "\u{e9}", String(repeating: "n", count: 65)])
    func `names that do not fit a path or a log line are refused`(name: String) { #expect(!APIKey.isName(name)) }

    @Test func `scopes are read and written as names`() {
        #expect(APIScope.set("tokens.read,registrations") == [.tokensRead, .registrations])
        #expect(APIScope.set("admin")?.names == "admin")
        #expect(APIScope.set("registrations,tokens.report")?.names == "tokens.report,registrations")
        for text in ["", "tokens", "tokens.read,", "tokens.read, admin", "ADMIN"] { #expect(APIScope.set(text) == nil) }
    }

    @Test func `a scope allows itself, and admin allows all`() {
        for scope in APIScope.allCases {
            #expect(Set([scope]).allows(scope))
            #expect(Set([APIScope.admin]).allows(scope))
            #expect(Set([scope]).allows(.admin) == (scope == .admin))
        }
        #expect(Set([APIScope.lifecycle]).allows(.lifecycleReport))
        #expect(!Set([APIScope.lifecycleReport]).allows(.lifecycle))
        #expect(Set([APIScope.adminRead]).allows(.metrics) && !Set([APIScope.metrics]).allows(.adminRead))
    }

    @Test func `the ring finds a key by its text alone`() throws {
        let (first, second, removed) = (try APIKeySecret.make(), try APIKeySecret.make(), try APIKeySecret.make())
        let ring = APIKeyRing([try key("first", first), try key("second", second), try key("removed", removed)])
        ring.remove("removed")
        #expect(ring.key(matching: first)?.name == "first")
        #expect(ring.key(matching: second)?.name == "second")
        #expect(ring.key(matching: removed) == nil)
        #expect(ring.key(matching: try APIKeySecret.make()) == nil)
        #expect(ring.all.map(\.name) == ["first", "second"])
    }

    @Test(arguments: ["", "spd_", "spd_short", "xpd_" + String(repeating: "a", count: 43)])
    func `a text that cannot be a key is not hashed`(text: String) { #expect(APIKeySecret(text) == nil) }

    // MARK: The store

    @Test func `keys are stored by their hash, and removed`() throws {
        let folder = try StoreFolder()
        let secret = try APIKeySecret.make()
        let kept = try key("kept", secret, [.tokensRead, .pushes])
        try folder.keep([.addKey(kept.stored), .addKey(try key("gone", secret).stored), .removeKey(name: "gone")])
        #expect(try folder.opened().keys().map(APIKey.init) == [kept])
    }
}
