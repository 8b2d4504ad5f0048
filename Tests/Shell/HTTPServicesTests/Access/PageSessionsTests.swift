import Testing
import Timekeeping

@testable import HTTPServices

@Suite("Sessions of the web page")
struct PageSessionsTests {
    private let start = Instant(nanoseconds: 1)
    private let ring = APIKeyRing()
    private let sessions: PageSessions

    init() { sessions = PageSessions(keys: ring) }

    @discardableResult
    private func key(_ name: String, hash: UInt8 = 1) throws -> APIKey {
        let key = try #require(
            APIKey(
                name: name, hash: [UInt8](repeating: hash, count: 32), scopes: [.admin],
                createdAt: UnixTime(seconds: 0)))
        ring.add(key)
        return key
    }

    private func isOpen(_ secret: String, at now: Instant) -> Bool {
        if case .open = sessions.use(PageSessions.name(of: secret), now: now) { true } else { false }
    }

    private func begin(_ key: APIKey, at now: Instant) throws -> String {
        try #require(sessions.begin(for: key, now: now))
    }

    @Test func `a session is open until it ends`() throws {
        let secret = try begin(key("a"), at: start)
        #expect(secret.utf8.count == 43)
        #expect(isOpen(secret, at: start))
        #expect(!isOpen(String(secret.reversed()), at: start))
        sessions.end(PageSessions.name(of: secret))
        #expect(!isOpen(secret, at: start))
    }

    @Test func `a session ends without requests, and after its lifetime`() throws {
        let secret = try begin(key("a"), at: start)
        #expect(isOpen(secret, at: start + .seconds(1799)))
        #expect(isOpen(secret, at: start + .seconds(3598)))
        #expect(!isOpen(secret, at: start + .seconds(3598 + 1800)))

        let long = try begin(key("a"), at: start)
        var now = start
        while now + .seconds(60) < start + PageSessions.lifetime {
            now = now + .seconds(60)
            #expect(isOpen(long, at: now))
        }
        #expect(!isOpen(long, at: start + PageSessions.lifetime))
    }

    @Test func `a session ends with its key, even if a new key has the same name`() throws {
        let (first, second) = (try begin(key("a"), at: start), try begin(key("b"), at: start))
        ring.remove("a")
        guard case .keyRemoved = sessions.use(PageSessions.name(of: first), now: start) else {
            Issue.record("the session is open without its key")
            return
        }
        try key("b", hash: 2)
        #expect(!isOpen(second, at: start))
        try key("b", hash: 1)
        #expect(!isOpen(second, at: start))
    }

    @Test func `a key can only end its own sessions`() throws {
        let other = try begin(key("other"), at: start)
        let greedy = try key("greedy")
        let first = try begin(greedy, at: start)
        for number in 1...PageSessions.limitOfKey { _ = try begin(greedy, at: start + .seconds(number)) }
        #expect(sessions.count == PageSessions.limitOfKey + 1)
        #expect(!isOpen(first, at: start + .seconds(60)))
        #expect(isOpen(other, at: start + .seconds(60)))
    }

    @Test func `the number of sessions is limited`() throws {
        for name in 0..<(PageSessions.limit / PageSessions.limitOfKey + 5) {
            let key = try key("k\(name)")
            for _ in 0..<PageSessions.limitOfKey { _ = try begin(key, at: start) }
        }
        #expect(sessions.count == PageSessions.limit)
    }

    @Test func `the token belongs to one session, and is not the secret`() throws {
        let (first, second) = (try begin(key("a"), at: start), try begin(key("a"), at: start))
        #expect(PageSessions.token(of: first) != PageSessions.token(of: second))
        #expect(PageSessions.token(of: first) != first)
    }
}
