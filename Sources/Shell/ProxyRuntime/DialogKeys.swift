import Bytes
package import Crypto
package import Persistence
import ProxyCore
import ProxyPolicy
package import Reactor
import SIPDialogs
package import Telemetry
package import Timekeeping

/// The keys that encrypt dialog tokens (T20.6). The keys are in the store, so that a call from before a restart can
/// still be ended.
///
/// Each month, a new key is created for the tokens of new dialogs. An old key is kept as long as a dialog with a token
/// of the key exists.
///
/// In a cluster, each node reads the keys every few seconds, and a new key only decrypts until all nodes have read it.
/// Nodes remove no old key, because another node's dialogs may need it.
///
/// - The class is `@unchecked Sendable`, because only its shard's loop uses it.
package final class DialogKeys: @unchecked Sendable {
    package let sealer = TextSealer()

    static let name = "dialog-seal"
    /// The time for which a key encrypts the tokens of new dialogs, before the daemon creates the next key.
    static let age: Duration = .seconds(30 * 86_400)
    private static let pause: Duration = .seconds(86_400)
    /// The time after which a node of a cluster reads the keys again.
    private static let sharedPause: Duration = .seconds(5)
    /// The age at which a key encrypts in a cluster. Until then, each node has read the key.
    static let sharedAge: Duration = .seconds(30)

    private let store: any ProxyStore
    /// Whether several nodes use the store.
    private let isShared: Bool
    private let log: Log
    /// The dialog keys, newest first.
    private var keys: [Key]
    private var timer: LoopTimer?
    /// The number of the key that encrypts in a cluster; `nil` until there are several keys.
    private var sealing: UInt8?

    /// One stored dialog key. The first byte of the stored value is the key's number, with which each token of the key
    /// begins.
    private struct Key {
        let secret: StoredSecret
        let number: UInt8

        init?(_ secret: StoredSecret) {
            guard secret.value.count == 1 + SIVKey.byteCount, let number = secret.value.first else { return nil }
            self.secret = secret
            self.number = number
        }

        init(number: UInt8, at date: UnixTime) throws(CryptoError) {
            self.number = number
            secret = StoredSecret(
                name: DialogKeys.name, createdAt: date, value: [number] + (try RandomBytes.make(SIVKey.byteCount)))
        }

        var bytes: [UInt8] { Array(secret.value.dropFirst()) }
    }

    /// Reads the dialog keys from the store. If the newest key is missing or too old, a new key is persisted before it
    /// encrypts a token.
    package init(
        store: any ProxyStore, isShared: Bool = false, log: Log, now: UnixTime
    ) async throws(StartError) {
        (self.store, self.isShared) = (store, isShared)
        self.log = log
        let secrets = try await StartError.wrapping { () async throws(StoreError) in
            try await store.secrets(named: Self.name)
        }
        keys = secrets.compactMap { Key($0) }
        if isDue(at: now) {
            let newest: Key
            do throws(CryptoError) {
                newest = try Key(number: nextNumber, at: now)
            } catch {
                throw StartError("cannot create a key for dialog tokens: \(error)")
            }
            // If another node of the cluster makes a key at the same time, the store keeps only one of both.
            let stored = try await StartError.wrapping { () async throws(StoreError) in
                try await store.keep([.addSecret(newest.secret)])
                return try await store.secrets(named: Self.name)
            }
            keys = stored.compactMap { Key($0) }
        }
        do throws(CryptoError) {
            for key in keys.reversed() { try sealer.use(key.bytes, number: key.number) }
            try useOldEnough(at: now)
        } catch {
            throw StartError("cannot create a key for dialog tokens: \(error)")
        }
    }

    /// Starts a daily check whether a new key is due and whether old keys can be deleted.
    package func start(through door: ShardDoor, on loop: EventLoop) throws(SystemError) {
        timer = try LoopTimer(on: loop) { [weak self] in
            loop.startTask { [weak self] _ in await self?.look(door, loop) }
        }
        // The first check of the newest key's age comes as soon as the loop runs.
        timer?.arm(at: loop.moment.instant)
    }

    private func look(_ door: ShardDoor, _ loop: EventLoop) async {
        let now = loop.moment
        let (lifetime, inUse) = await door.ask(.everything) { engine, now in
            (engine.settings.call.dialogLifetime, engine.dialogs.renewals.keys(at: now.date))
        }
        turn(lifetime: lifetime, inUse: inUse, now: now.date)
        if isShared, let secrets = try? await store.secrets(named: Self.name) {
            learn(secrets, at: now.date)
        }
        timer?.arm(at: now.instant + (isShared ? Self.sharedPause : Self.pause))
    }

    /// Takes the keys that other nodes have created.
    func learn(_ secrets: [StoredSecret], at date: UnixTime) {
        let stored = secrets.compactMap { Key($0) }
        guard !stored.isEmpty else { return }
        keys = stored
        do throws(CryptoError) {
            for key in stored { try sealer.know(key.bytes, number: key.number) }
            try useOldEnough(at: date)
        } catch {
            log.error("the daemon cannot use a key for dialog tokens of another node", [.error: .described(error)])
        }
    }

    /// In a cluster, encrypts with the newest key that all nodes have read.
    private func useOldEnough(at date: UnixTime) throws(CryptoError) {
        guard isShared, keys.count > 1,
            let key = keys.first(where: { date - $0.secret.createdAt >= Self.sharedAge }) ?? keys.last,
            key.number != sealing
        else { return }
        try sealer.use(key.bytes, number: key.number)
        sealing = key.number
    }

    /// Creates a new dialog key if the newest key is too old. Deletes dialog keys that no living dialog needs, and the
    /// renewals of ended dialogs.
    ///
    /// - Parameters:
    ///   - lifetime: the maximum lifetime of a dialog.
    ///   - inUse: the numbers of the keys that encrypted the tokens of living dialogs.
    ///   - now: the present date.
    func turn(lifetime: Duration, inUse: Set<UInt8>, now: UnixTime) {
        store.record([.pruneDialogRenewals(before: now)])
        while !isShared, keys.count > 1, let oldest = keys.last, !inUse.contains(oldest.number),
            now - keys[keys.count - 2].secret.createdAt > lifetime * 2
        {
            keys.removeLast()
            sealer.forget(oldest.number)
            store.record([.removeSecret(name: Self.name, createdAt: oldest.secret.createdAt)])
        }
        guard isDue(at: now) else { return }
        do throws(CryptoError) {
            let key = try Key(number: nextNumber, at: now)
            store.commit([.addSecret(key.secret)]) { [weak self] result in
                // A node of a cluster takes the key when it reads the keys again.
                if result.isStored, let self, !self.isShared { self.take(key) }
            }
        } catch {
            log.error(
                "the daemon cannot create a new key for dialog tokens, so the old key stays in use",
                [.error: .described(error)])
        }
    }

    private func take(_ key: Key) {
        do throws(CryptoError) {
            try sealer.use(key.bytes, number: key.number)
            keys.insert(key, at: 0)
        } catch {
            log.error(
                "the daemon cannot create a new key for dialog tokens, so the old key stays in use",
                [.error: .described(error)])
        }
    }

    var count: Int { keys.count }

    private func isDue(at date: UnixTime) -> Bool {
        guard let newest = keys.first else { return true }
        return date - newest.secret.createdAt >= Self.age
    }

    private var nextNumber: UInt8 { (keys.first?.number ?? 0) &+ 1 }
}
