import ProxyCore
import Reactor
import StoreTesting
import Telemetry
import Testing
import Timekeeping

@testable import Persistence

/// Tests the stored keys, which outlive the process, and dialogs whose lifetime was extended.
@Suite("Store, secrets and dialogs", .timeLimit(.minutes(10)))
struct SecretStoreTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func secret(_ name: String, _ seconds: Int64) -> StoredSecret {
        StoredSecret(name: name, createdAt: UnixTime(seconds: seconds), value: [0, 0xFF, UInt8(seconds)])
    }

    @Test func `secrets are restored, the newest first, and deleted one by one`() async throws {
        let store = try ObservedWriter(folder)
        // If nodes store secrets of the same name within a minute, the database keeps the first.
        let seals = [secret("seal", 61), secret("seal", 183), secret("seal", 122)]
        #expect(
            await store.write(seals.map { .service(.addSecret($0)) } + [.service(.addSecret(secret("other", 9)))])
                == true)
        #expect(try read("seal") == [seals[1], seals[2], seals[0]])
        #expect(await store.write([.service(.removeSecret(name: "seal", createdAt: UnixTime(seconds: 122)))]) == true)
        #expect(try read("seal") == [seals[1], seals[0]])
        #expect(try read("other").count == 1)
        #expect(try read("none").isEmpty)
        store.writer.stop()
    }

    private func read(_ name: String) throws -> [StoredSecret] { try folder.read { try $0.secrets(named: name) } }

    @Test func `a secret that is kept is in the file when the call returns`() async throws {
        let store = try folder.open(loop: try EventLoop(), log: .silent)
        let secret = StoredSecret(name: "seal", createdAt: UnixTime(seconds: 5), value: [1, 2, 3])
        try await store.keep([.addSecret(secret)])
        #expect(try read("seal") == [secret])
        #expect(try await store.secrets(named: "seal") == [secret])
        store.close()
    }

    @Test func `text made from a secret does not show it`() {
        let secret = StoredSecret(name: "seal", createdAt: UnixTime(seconds: 1), value: [123, 231, 132])
        var dumped = ""
        dump(secret, to: &dumped)
        for text in ["\(secret)", String(reflecting: secret), dumped, "\(RowChange.service(.addSecret(secret)))"] {
            #expect(!text.contains("231"))
        }
    }

    @Test func `a dialog's end moves to later times alone, and dialogs that ended are forgotten`() async throws {
        let store = try ObservedWriter(folder)
        func renewal(_ name: UInt64, _ seconds: Int64) -> DialogRenewal {
            DialogRenewal(digest: name << 56 | name, until: UnixTime(seconds: seconds))
        }
        let rows = [renewal(1, 10), renewal(1, 30), renewal(1, 20), renewal(2, 15), renewal(3, 40)]
        #expect(await store.write(rows.map { .engine(.dialogRenewed($0.digest, until: $0.until)) }) == true)
        #expect(try renewals(after: 0) == [renewal(1, 30), renewal(2, 15), renewal(3, 40)])
        #expect(try renewals(after: 16) == [renewal(1, 30), renewal(3, 40)])
        #expect(await store.write([.service(.pruneDialogRenewals(before: UnixTime(seconds: 30)))]) == true)
        #expect(try renewals(after: 0) == [renewal(1, 30), renewal(3, 40)])
        store.writer.stop()
    }

    private func renewals(after seconds: Int64) throws -> Set<DialogRenewal> {
        Set(try folder.read { try $0.dialogRenewals(after: UnixTime(seconds: seconds)) })
    }
}
