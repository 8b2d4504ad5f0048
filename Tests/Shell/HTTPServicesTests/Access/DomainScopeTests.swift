import Bytes
import Persistence
import StoreTesting
import Testing
import Timekeeping

@testable import HTTPServices

@Suite("Domains of a key")
struct DomainScopeTests {
    private func scope(_ domains: String...) throws -> DomainScope { try #require(DomainScope(domains: domains)) }

    @Test func `names are compared without regard to case`() throws {
        let key = try scope("A.Example", "b.example")
        for host in ["a.example", "A.EXAMPLE", "b.example"] { #expect(key.permits(ByteString(host)), "\(host)") }
        for host in ["", "c.example", "x.a.example", "a.example.", "a.exampl", "a.example,b.example"] {
            #expect(!key.permits(ByteString(host)), "\(host)")
            #expect(DomainScope.wholeDaemon.permits(ByteString(host)), "\(host)")
        }
        #expect(key.names == ["a.example", "b.example"])
        let one = try scope("A.example")
        #expect(key.single == nil && one.single == ByteString("a.example"))
        #expect(DomainScope.wholeDaemon.names == nil && DomainScope.wholeDaemon.single == nil)
    }

    @Test func `lists without a name of a domain are refused`() {
        for domains in [
            [], [""], ["a.example", ""], ["a b"], ["a,b"], ["a\n"], ["\u{e9}.example"],
            [String](repeating: "a.example", count: 101), [String(repeating: "a", count: 254)],
        ] {
            #expect(DomainScope(domains: domains) == nil, "\(domains)")
        }
    }

    @Test func `more is included by less of a limit, never the other way round`() throws {
        let (one, other, both) = (try scope("a"), try scope("b"), try scope("b", "A"))
        let same = try scope("A")
        #expect(both.includes(one) && both.includes(both) && one.includes(same))
        #expect(!one.includes(both) && !one.includes(other) && !both.includes(.wholeDaemon))
        #expect(DomainScope.wholeDaemon.includes(.wholeDaemon) && DomainScope.wholeDaemon.includes(both))
    }

    @Test func `a question names one of the caller's domains, or nothing`() throws {
        let key = try scope("a", "b")
        #expect(key.hosts(named: nil) == [ByteString("a"), ByteString("b")])
        #expect(key.hosts(named: "A") == [ByteString("a")] && key.hosts(named: "c") == [])
        #expect(DomainScope.wholeDaemon.hosts(named: nil) == nil)
        #expect(DomainScope.wholeDaemon.hosts(named: "C") == [ByteString("c")])
    }

    @Test func `a stored key keeps its domains, and a damaged list is no key`() async throws {
        let hash = [UInt8](repeating: 7, count: 32)
        let date = UnixTime(milliseconds: 5)
        let domains = try scope("B.example", "a.example")
        let key = try #require(
            APIKey(name: "k", hash: hash, scopes: [.admin], createdAt: date, domains: domains))
        #expect(key.stored.domains == "a.example,b.example" && APIKey(key.stored) == key)
        let folder = try StoreFolder()
        try folder.keep([.addKey(key.stored)])
        let found = try folder.opened().keys()
        #expect(found.map { APIKey($0) } == [key])
        for domains in [",", "a.example,", " ", "a b", "a.example,,b.example"] {
            let stored = StoredKey(name: "k", hash: hash, scopes: "admin", createdAt: date, domains: domains)
            #expect(APIKey(stored) == nil, "\(domains)")
        }
        let whole = StoredKey(name: "k", hash: hash, scopes: "admin", createdAt: date, domains: "")
        #expect(APIKey(whole)?.domains == .wholeDaemon)
    }

    @Test func `a name is taken while its key is being stored`() throws {
        func key(_ name: String, _ domains: DomainScope = .wholeDaemon) throws -> APIKey {
            try #require(
                APIKey(
                    name: name, hash: [UInt8](repeating: 7, count: 32), scopes: [.admin],
                    createdAt: UnixTime(seconds: 0), domains: domains))
        }
        let ring = APIKeyRing()
        let first = try key("k")
        ring.addBegins(first)
        let (own, second) = (try scope("a"), try key("k", try scope("a")))
        #expect(ring.conflict(with: second, addedBy: own) != nil)
        #expect(ring["k"] == nil)
        ring.addEnds(first, isStored: false)
        #expect(ring.conflict(with: first, addedBy: .wholeDaemon) == nil && ring["k"] == nil)
        ring.addBegins(first)
        ring.addEnds(first, isStored: true)
        #expect(ring["k"] == first && ring.conflict(with: first, addedBy: .wholeDaemon) != nil)
    }

    @Test func `the domain of an app is the domain of all its users`() {
        for (template, domain) in [
            ("{{user}}@a.example", "a.example"), ("x-{{user}}@A.Example", "a.example"), ("{{user}}", nil),
            ("{{user}}.example", nil), ("bob@{{user}}", nil), ("bob@a{{user}}", nil),
        ] as [(String, String?)] {
            #expect(UserTemplate(template)?.domain?.string == domain, "\(template)")
        }
    }
}
