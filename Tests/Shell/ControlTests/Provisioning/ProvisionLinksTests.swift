import Bytes
import Persistence
import Testing
import Timekeeping

@testable import Control

@Suite("Provisioning links")
struct ProvisionLinksTests {
    private func link(
        _ number: UInt8, of name: String = "bob", domain: String = "example.net", at seconds: Int64 = 1000,
        for life: Int64 = 900
    ) -> StoredProvisionLink {
        StoredProvisionLink(
            hash: [UInt8](repeating: number, count: 32), name: ByteString(name), realm: ByteString(domain),
            domain: ByteString(domain), createdAt: UnixTime(seconds: seconds),
            expiresAt: UnixTime(seconds: seconds + life), setsPassword: false, creator: "boss")
    }

    private func use(_ number: UInt8, at seconds: Int64) -> ProvisionLinkUse {
        ProvisionLinkUse(
            hash: [UInt8](repeating: number, count: 32), date: UnixTime(seconds: seconds), source: "192.0.2.1:1",
            user: nil)
    }

    private func find(_ number: UInt8, in links: ProvisionLinks, at seconds: Int64) -> String {
        switch links.find([UInt8](repeating: number, count: 32), now: UnixTime(seconds: seconds)) {
        case .unused(let link): "unused \(link.name)"
        case .used(let link): "used \(link.usedFrom)"
        case .unknown: "unknown"
        }
    }

    @Test func `a link is valid until it expires, and then like a link that never existed`() {
        let links = ProvisionLinks([link(1)])
        #expect(find(1, in: links, at: 1899) == "unused bob")
        #expect(find(1, in: links, at: 1900) == "unknown")
        #expect(find(2, in: links, at: 1000) == "unknown")
    }

    @Test func `a used link stays used, also after its end and after a restart`() {
        var links = ProvisionLinks([link(1)])
        links.used(use(1, at: 1100))
        // A later use changes nothing.
        links.used(use(1, at: 1200))
        #expect(find(1, in: links, at: 5000) == "used 192.0.2.1:1")
        var stored = link(1)
        stored.usedAt = UnixTime(seconds: 1100)
        #expect(find(1, in: ProvisionLinks([stored]), at: 5000) == "used ")
    }

    @Test func `a new link ends the user's unused link, and no other link`() {
        var links = ProvisionLinks([link(1), link(2, of: "eve"), link(3, domain: "example.org")])
        links.add(link(4))
        #expect(
            [1, 2, 3, 4].map { find($0, in: links, at: 1001) } == ["unknown", "unused eve", "unused bob", "unused bob"])
        links.used(use(4, at: 1002))
        links.add(link(5))
        #expect(find(4, in: links, at: 1003) == "used 192.0.2.1:1")
        #expect(find(5, in: links, at: 1003) == "unused bob")
    }

    @Test func `revoking ends the unused link alone`() {
        var links = ProvisionLinks([link(1)])
        let (bob, realm) = (ByteString("bob"), ByteString("example.net"))
        #expect(links.hasUnused(of: bob, realm: realm))
        let (first, second) = (links.removeUnused(of: bob, realm: realm), links.removeUnused(of: bob, realm: realm))
        #expect(first && !second)
        #expect(find(1, in: links, at: 1001) == "unknown")
        links.add(link(2))
        links.used(use(2, at: 1002))
        let third = links.removeUnused(of: bob, realm: realm)
        #expect(!third)
        #expect(find(2, in: links, at: 1003) == "used 192.0.2.1:1")
    }

    @Test func `links that expired are dropped at once, and used links after 30 days`() {
        var links = ProvisionLinks([link(1), link(2, of: "eve")])
        links.used(use(2, at: 1100))
        links.prune(now: UnixTime(seconds: 2000))
        #expect(links.all(now: UnixTime(seconds: 0)).map(\.name.string) == ["eve"])
        links.prune(now: UnixTime(seconds: 1100 + 30 * 86_400))
        #expect(find(2, in: links, at: 3000) == "used 192.0.2.1:1")
        links.prune(now: UnixTime(seconds: 1101 + 30 * 86_400))
        #expect(find(2, in: links, at: 3000) == "unknown")
    }

    @Test func `one domain cannot use up the links of all domains`() {
        var links = ProvisionLinks()
        for number in 0..<ProvisionLinks.limitForDomain {
            var hash = [UInt8](repeating: 0, count: 32)
            (hash[0], hash[1]) = (UInt8(number & 0xFF), UInt8(number >> 8))
            links.add(
                StoredProvisionLink(
                    hash: hash, name: ByteString("u\(number)"), realm: ByteString("a.example"),
                    domain: ByteString("a.example"), createdAt: UnixTime(seconds: 1), expiresAt: UnixTime(seconds: 100),
                    setsPassword: false, creator: "-"))
        }
        func isFull(_ name: String, _ domain: String, at seconds: Int64 = 2) -> Bool {
            links.isFull(
                for: ByteString(name), realm: ByteString(domain), domain: ByteString(domain),
                now: UnixTime(seconds: seconds))
        }
        #expect(isFull("new", "a.example"))
        // A link that replaces the user's unused link needs no room.
        #expect(!isFull("u1", "a.example"))
        #expect(!isFull("new", "b.example"))
        #expect(!isFull("new", "a.example", at: 100))
    }

    @Test func `tokens have 256 random bits, and texts of another form are none`() throws {
        let tokens = try (0..<100).map { _ in try ProvisionToken.make().text }
        #expect(Set(tokens).count == 100 && tokens.allSatisfy { ProvisionToken($0)?.text == $0 })
        let first = try #require(tokens.first)
        for text in ["", String(first.dropLast()), first + "A", first.dropLast() + "/", first.dropLast() + "é"] {
            #expect(ProvisionToken(text) == nil)
        }
        let passwords = try (0..<100).map { _ in try ProvisionToken.makePassword() }
        #expect(Set(passwords).count == 100)
        #expect(
            passwords.allSatisfy { $0.utf8.count == 24 && $0.utf8.allSatisfy { $0.isASCIIDigit || $0.isASCIILetter } })
    }
}
