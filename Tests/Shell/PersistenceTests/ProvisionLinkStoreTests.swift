import Bytes
import Registration
import Storage
import StoreTesting
import Testing
import Timekeeping

@testable import Persistence

@Suite("Store, provisioning links", .timeLimit(.minutes(10)))
struct ProvisionLinkStoreTests {
    private let folder: StoreFolder
    private static let bob = ByteString("bob")
    private static let home = ByteString("example.net")

    init() throws { folder = try StoreFolder() }

    private func link(_ number: UInt8, name: ByteString = Self.bob, expires: Int64 = 900) -> StoredProvisionLink {
        StoredProvisionLink(
            hash: [UInt8](repeating: number, count: 32), name: name, realm: Self.home, domain: Self.home,
            createdAt: UnixTime(seconds: 1), expiresAt: UnixTime(seconds: expires), setsPassword: true, creator: "boss")
    }

    private func use(_ number: UInt8, at seconds: Int64 = 5, password: String? = nil) -> ServiceChange {
        let user = password.map { DigestUser(name: Self.bob, realm: Self.home, ha1: [.md5: ByteString($0)]) }
        return .useProvisionLink(
            ProvisionLinkUse(
                hash: [UInt8](repeating: number, count: 32), date: UnixTime(seconds: seconds), source: "192.0.2.1:1",
                user: user))
    }

    private func links() throws -> [StoredProvisionLink] {
        try folder.read { try $0.provisionLinks() }.sorted { ($0.hash.first ?? 0) < ($1.hash.first ?? 0) }
    }

    private func password() throws -> ByteString? { try folder.read { try $0.users() }.first?.ha1[.md5] }

    /// Writes one change, and returns whether the row that had to change was there.
    private func apply(_ change: ServiceChange) throws -> Bool { try folder.apply(.service(change)) }

    @Test func `a link is stored with its values`() throws {
        try folder.keep([.addProvisionLink(link(1))])
        #expect(try links() == [link(1)])
    }

    @Test func `only the first use counts, and only it changes the password`() throws {
        try folder.keep([
            .addUser(DigestUser(name: Self.bob, realm: Self.home, ha1: [.md5: ByteString("old")])),
            .addProvisionLink(link(1)),
        ])
        #expect(try apply(use(1, password: "first")))
        #expect(try !apply(use(1, at: 6, password: "second")))
        #expect(try !apply(use(2, password: "unknown")))
        #expect(try password() == ByteString("first"))
        let used = try #require(try links().first)
        #expect(used.usedAt == UnixTime(seconds: 5) && used.usedFrom == "192.0.2.1:1")
    }

    @Test func `a link that has expired cannot be used`() throws {
        try folder.keep([.addProvisionLink(link(1, expires: 5))])
        #expect(try !apply(use(1, at: 5, password: "x")))
        #expect(try apply(use(1, at: 4)))
    }

    @Test func `a new link, a new password and the user's removal end unused links`() throws {
        let eve = ByteString("eve")
        try folder.keep([.addProvisionLink(link(9, name: eve))])
        let ends: [ServiceChange] = [
            .addProvisionLink(link(2)), .addUser(DigestUser(name: Self.bob, realm: Self.home, ha1: [:])),
            .removeUser(name: Self.bob, realm: Self.home), .removeProvisionLinks(name: Self.bob, realm: Self.home),
        ]
        for end in ends {
            try folder.keep([.addProvisionLink(link(1)), end])
            #expect(try links().contains { $0.hash == link(1).hash } == false)
            #expect(try links().contains { $0.name == eve })
        }
        // A used link stays, so that a second use is noticed.
        try folder.keep([.addProvisionLink(link(3)), use(3), .removeUser(name: Self.bob, realm: Self.home)])
        #expect(try links().contains { $0.hash == link(3).hash && $0.usedAt != nil })
    }

    @Test func `links that expired, and old and too many used links, are removed`() throws {
        let names = (1...6).map { ByteString("u\($0)") }
        try folder.keep(names.enumerated().map { .addProvisionLink(link(UInt8($0 + 1), name: $1, expires: 100)) })
        try folder.keep([2, 3, 4].map { use($0, at: Int64($0) * 10) })
        try folder.keep([.addProvisionLink(link(7, expires: 2000))])
        try folder.keep([
            .pruneProvisionLinks(at: UnixTime(seconds: 100), usedBefore: UnixTime(seconds: 30), keeping: 1)
        ])
        #expect(try links().compactMap(\.hash.first) == [4, 7])
    }
}
