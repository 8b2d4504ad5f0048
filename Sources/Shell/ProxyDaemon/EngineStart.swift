import Addressing
import Bytes
import Calling
import Crypto
import HTTPServices
import Persistence
import ProxyCore
import ProxyPolicy
import ProxyRuntime
import PushDelivery
import PushSending
import Reactor
import Registration
import Routing
import Telemetry
import Timekeeping

extension Daemon {
    /// Creates the engine and restores the stored state, so that the engine is ready for the first message.
    static func makeEngine(
        _ settings: DaemonSettings, _ push: PushService, listeners: [Listener], store: DatabaseStore,
        node: OwnNode?, functions: ProxyFunctions, now: Moment
    ) async throws(StartError) -> ProxyEngine {
        var engineSettings = settings.engineSettings(with: push)
        engineSettings.node = node
        do throws(StoreError) {
            var stored = try await store.engineState()
            stored.registerCeiling = try await RegisterCeiling.stored(in: store)
            let engine = ProxyEngine(
                settings: engineSettings,
                identity: LocalIdentity(
                    listeners: listeners, domains: settings.domains.map { ByteString($0) }, machine: HostAddress.all,
                    others: settings.api.listen + settings.admin.listen),
                functions: functions, restoring: stored, startedAt: now.date)
            engine.reportsEvents(settings.events.url != nil)
            if let shared = store.shared {
                try await restoreCalls(engine, from: store, shared, now: now)
            } else {
                try await restore(engine, from: store, unreadAge: engineSettings.unreadAge, now: now)
            }
            return engine
        } catch {
            throw StartError(error)
        }
    }

    /// Restores the stored state in portions, because reading all rows at once would need twice the memory.
    private static func restore(
        _ engine: ProxyEngine, from store: any ProxyStore, unreadAge: Duration, now: Moment
    ) async throws(StoreError) {
        for dialog in try await store.dialogRenewals(after: now.date) {
            engine.restoreDialog(dialog.digest, until: dialog.until, now: now)
        }
        var refused: [EngineChange] = []
        var rows = try await store.bindings(after: nil, limit: restoreLimit)
        while let last = rows.last?.id {
            // The store's thread reads the next bindings while the engine restores the present bindings.
            async let next = bindings(after: last, in: store)
            for row in rows where !engine.restore(row, now: now) { refused.append(.binding(.delete(row.id))) }
            rows = try await next.get()
        }
        var lastCall: UInt64 = 0
        while true {
            let calls = try await store.calls(after: lastCall, limit: restoreLimit)
            guard let last = calls.last?.id else { break }
            for call in calls { engine.restore(call, now: now) }
            lastCall = last
        }
        if !refused.isEmpty { store.record(refused) }
        var lastPush: UnreadPush?
        while engine.timeline.isOn {
            let pushes = try await store.unreadPushes(
                since: now.date + (.zero - unreadAge), after: lastPush, limit: restoreLimit)
            for push in pushes { engine.restoreUnread(push.code, push.matter, of: push.device, at: push.requestedAt) }
            lastPush = pushes.last
            if lastPush == nil { break }
        }
        engine.restored(now: now)
    }

    /// Restores the calls of this node's earlier run. A node reads users only when a request or call needs them.
    private static func restoreCalls(
        _ engine: ProxyEngine, from store: any ProxyStore, _ shared: any SharedStore, now: Moment
    ) async throws(StoreError) {
        for dialog in try await store.dialogRenewals(after: now.date) {
            engine.restoreDialog(dialog.digest, until: dialog.until, now: now)
        }
        // An INVITE that went to a phone at a living node is sent there again.
        engine.nodesChanged(shared.peersAtStart, now: now)
        var lastCall: UInt64 = 0
        while true {
            let calls = try await store.calls(after: lastCall, limit: restoreLimit)
            guard let last = calls.last?.id else { break }
            let users = Set(calls.flatMap { [$0.userCall?.aor, $0.sender].compactMap { $0 } })
            let found = await withCheckedContinuation { waiter in
                shared.read(users.map { .user($0) }, waiting: nil) { waiter.resume(returning: $0) }
            }
            guard let found else { throw StoreError("the database does not answer") }
            for user in found.users { engine.restore(user, now: now) }
            for call in calls {
                if shared.wasTakenOver, call.isInStore {
                    // Another node has the call. The next run must not continue it either.
                    store.journal(.over(call: call.id))
                } else {
                    engine.restore(call, now: now)
                }
            }
            lastCall = last
        }
        engine.restored(now: now)
    }

    private static func bindings(
        after device: DeviceID, in store: any ProxyStore
    ) async -> Result<[StoredBinding], StoreError> {
        do throws(StoreError) {
            return .success(try await store.bindings(after: device, limit: restoreLimit))
        } catch {
            return .failure(error)
        }
    }

    private static let restoreLimit = 5000
}
