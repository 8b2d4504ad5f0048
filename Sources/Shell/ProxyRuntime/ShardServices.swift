import Addressing
package import Persistence
import ProxyCore
package import ProxyPolicy
package import PushSending
import Reactor
package import Routing
import Telemetry

/// The services that carry out the engine's actions: the store, the push providers and the resolver.
///
/// - The type is `@unchecked Sendable`, because the services are used only on the shard's loop.
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
