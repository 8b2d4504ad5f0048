import Bytes
import Crypto
import Persistence
import Reactor
import StoreTesting
import Telemetry
import Testing
import Timekeeping

@testable import ProxyRuntime

/// Tests that the keys of dialog tokens are kept in the store (T20.6).
@Suite("Keys of dialog tokens", .timeLimit(.minutes(10)))
struct DialogKeysTests {
    private let folder: StoreFolder
    private static let start = UnixTime(seconds: 1_790_000_000)
    private static let day: Duration = .seconds(86_400)

    init() throws { folder = try StoreFolder() }

    /// Runs a test with a store on a loop that does not run.
    private func withStore(_ body: (DatabaseStore) async throws -> Void) async throws {
        let store = try folder.open(loop: try EventLoop(), log: .silent)
        defer { store.close() }
        try await body(store)
    }

    /// Starts a run of the program at `duration` after `start`, and returns its dialog keys.
    private static func keys(_ store: DatabaseStore, after duration: Duration) async throws -> DialogKeys {
        try await DialogKeys(store: store, log: .silent, now: start + duration)
    }

    @Test func `a call of one run is recognized in the next, even after a change of the key`() async throws {
        try await withStore { store in
            let (call, tag) = (ByteString("call"), ByteString("tag"))
            let first = try await Self.keys(store, after: .zero)
            let text = ByteString(first.sealer.seal([1, 2], with: call, tag))
            for (days, count) in [(1, 1), (29, 1), (30, 2), (31, 2), (60, 3)] {
                let later = try await Self.keys(store, after: Self.day * days)
                #expect(later.count == count)
                #expect(later.sealer.open(text, with: call, tag)?.plain == [1, 2])
            }
        }
    }

    @Test func `an old key is removed when no dialog can use it any more`() async throws {
        try await withStore { store in
            let (call, tag) = (ByteString("call"), ByteString("tag"))
            let text = ByteString(try await Self.keys(store, after: .zero).sealer.seal([1], with: call, tag))
            let keys = try await Self.keys(store, after: Self.day * 30)
            let opened = try #require(keys.sealer.open(text, with: call, tag))
            let number = UInt8(truncatingIfNeeded: opened.digest >> 56)
            keys.turn(lifetime: Self.day / 2, inUse: [], now: Self.start + Self.day * 31)
            #expect(keys.count == 2)
            // The dialog still needs its key, because traffic has extended its lifetime.
            keys.turn(lifetime: Self.day / 2, inUse: [number], now: Self.start + Self.day * 32)
            #expect(keys.count == 2)
            keys.turn(lifetime: Self.day / 2, inUse: [], now: Self.start + Self.day * 32)
            #expect(keys.count == 1)
            #expect(keys.sealer.open(text, with: call, tag) == nil)
        }
    }

    @Test func `each node can read the tokens of the others while the key changes`() async throws {
        try await withStore { store in
            let (call, tag) = (ByteString("call"), ByteString("tag"))
            func number(_ keys: DialogKeys) -> UInt8? {
                let text = ByteString(keys.sealer.seal([1], with: call, tag))
                return keys.sealer.open(text, with: call, tag).map { UInt8(truncatingIfNeeded: $0.digest >> 56) }
            }
            func node(after duration: Duration) async throws -> DialogKeys {
                try await DialogKeys(store: store, isShared: true, log: .silent, now: Self.start + duration)
            }
            let old = try await node(after: .zero)
            let month = Self.day * 30
            // The node that starts after a month creates the second key, but the first node does not know the key yet.
            let new = try await node(after: month)
            #expect(number(new) == number(old))
            let secrets = try await store.secrets(named: DialogKeys.name)
            #expect(secrets.count == 2)
            old.learn(secrets, at: Self.start + month + .seconds(5))
            #expect(number(old) == 1)
            for keys in [new, old] { keys.learn(secrets, at: Self.start + month + DialogKeys.sharedAge) }
            #expect(number(new) == 2)
            #expect(number(old) == 2)
            let text = ByteString(new.sealer.seal([7], with: call, tag))
            #expect(old.sealer.open(text, with: call, tag)?.plain == [7])
        }
    }

    @Test func `the key is on the disk before anything is sealed with it`() async throws {
        try await withStore { store in
            _ = try await Self.keys(store, after: .zero)
            #expect(try await store.secrets(named: DialogKeys.name).map(\.value.count) == [33])
        }
    }
}
