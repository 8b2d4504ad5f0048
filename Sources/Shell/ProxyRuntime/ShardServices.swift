import Addressing
package import Persistence
package import ProxyCore
package import PushSending
import Reactor
import Telemetry

/// What the engine's actions are carried out with: the store, the push providers and the resolver.
///
/// - `@unchecked Sendable` because all of it lives on the shard's loop and is used there alone.
package struct ShardServices: @unchecked Sendable {
    package let store: any ProxyStore
    package let push: PushService
    package let resolve: (NextHop, @escaping ([ResolvedHop]) -> Void) -> Void

    package init(
        store: any ProxyStore, push: PushService,
        resolve: @escaping (NextHop, @escaping ([ResolvedHop]) -> Void) -> Void
    ) {
        self.store = store
        self.push = push
        self.resolve = resolve
    }
}
