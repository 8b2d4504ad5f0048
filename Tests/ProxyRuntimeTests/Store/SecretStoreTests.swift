import Bytes
import Foundation
import LoopTesting
import Telemetry
import Testing
import Timekeeping

@testable import ProxyRuntime

/// Keys that outlive the process, and dialogs whose lives were renewed.
@Suite("Store, secrets and dialogs", .timeLimit(.minutes(1)))
struct SecretStoreTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func secret(_ name: String, _ seconds: Int64) -> StoredSecret {
        StoredSecret(name: name, createdAt: UnixTime(seconds: seconds), value: [0, 0xFF, UInt8(seconds)])
    }

    @Test func `secrets come back, the newest first, and go one by one`() async throws {
        let store = try ObservedWriter(folder.path)
        let seals = [secret("seal", 1), secret("seal", 3), secret("seal", 2)]
        #expect(await store.write(seals.map { .addSecret($0) } + [.addSecret(secret("other", 9))]) == true)
        #expect(try read("seal") == [seals[1], seals[2], seals[0]])
        #expect(await store.write([.removeSecret(name: "seal", createdAt: UnixTime(seconds: 2))]) == true)
        #expect(try read("seal") == [seals[1], seals[0]])
        #expect(try read("other").count == 1)
        #expect(try read("none").isEmpty)
        store.writer.stop()
    }

    private func read(_ name: String) throws -> [StoredSecret] {
        var reader = try StoreReader(path: folder.path, mayMigrate: false)
        return try reader.secrets(named: name)
    }

    @Test func `a secret that is kept is in the file when the call returns`() async throws {
        try await withLoop { loop async throws in
            let path = folder.path
            try await Bench(loop).run { bench in
                let store = try StoreService(path: path, loop: bench.loop, log: .silent)
                let secret = StoredSecret(name: "seal", createdAt: UnixTime(seconds: 5), value: [1, 2, 3])
                try store.keep(secret)
                #expect(try store.loadSecrets(named: "seal") == [secret])
                store.close()
            }
        }
    }

    @Test func `text made from a secret does not show it`() {
        let secret = StoredSecret(name: "seal", createdAt: UnixTime(seconds: 1), value: [123, 231, 132])
        var dumped = ""
        dump(secret, to: &dumped)
        for text in ["\(secret)", String(reflecting: secret), dumped, "\(StoreChange.addSecret(secret))"] {
            #expect(!text.contains("231"))
        }
    }

    @Test func `a dialog's end moves to later times alone, and dialogs that ended are forgotten`() async throws {
        let store = try ObservedWriter(folder.path)
        func renewal(_ name: UInt8, _ seconds: Int64) -> StoredDialogRenewal {
            StoredDialogRenewal(digest: ByteString([name, 0]), until: UnixTime(seconds: seconds))
        }
        let rows = [renewal(1, 10), renewal(1, 30), renewal(1, 20), renewal(2, 15), renewal(3, 40)]
        #expect(await store.write(rows.map { .dialogRenewal($0) }) == true)
        #expect(try renewals(after: 0) == [renewal(1, 30), renewal(2, 15), renewal(3, 40)])
        #expect(try renewals(after: 16) == [renewal(1, 30), renewal(3, 40)])
        #expect(await store.write([.pruneDialogRenewals(before: UnixTime(seconds: 30))]) == true)
        #expect(try renewals(after: 0) == [renewal(1, 30), renewal(3, 40)])
        store.writer.stop()
    }

    private func renewals(after seconds: Int64) throws -> Set<StoredDialogRenewal> {
        var reader = try StoreReader(path: folder.path, mayMigrate: false)
        var found: Set<StoredDialogRenewal> = []
        try reader.forEachDialogRenewal(after: UnixTime(seconds: seconds)) { found.insert($0) }
        return found
    }
}
