package import Persistence
import ProxyCore
package import ProxyPolicy
package import PushSending
import Reactor
package import Registration
package import Routing
package import ServiceEvents

/// The services that carry out the engine's actions: the store, the push providers and the resolver.
///
/// - The struct is `@unchecked Sendable`, because only the shard's loop uses the services.
package struct ShardServices: @unchecked Sendable {
    package let store: any ProxyStore
    /// The store as the nodes of a cluster share it; `nil` if one daemon uses the store.
    package let shared: (any SharedStore)?
    package let push: PushService
    package let resolve: (NextHop, @escaping ([ResolvedHop]) -> Void) -> Void
    /// Queries a source of users (database or HTTP server), which answers once, on the loop.
    package let askUser: (UserQuestion, @escaping (UserAnswer) -> Void) -> Void
    /// Reads the keys of a bearer token issuer; the keys come once, on the loop.
    package let readKeys: (Int, @escaping (Result<[BearerKey], UserFault>) -> Void) -> Void
    /// Appends an event for the operator's receiver to the log of events.
    package let tell: (ServiceEvent) -> Void
    /// Writes the appended events.
    package let flushEvents: () -> Void

    package init(
        store: any ProxyStore, shared: (any SharedStore)? = nil, push: PushService,
        resolve: @escaping (NextHop, @escaping ([ResolvedHop]) -> Void) -> Void,
        askUser: @escaping (UserQuestion, @escaping (UserAnswer) -> Void) -> Void = { $1(.unknown) },
        readKeys: @escaping (Int, @escaping (Result<[BearerKey], UserFault>) -> Void) -> Void = { _, _ in },
        tell: @escaping (ServiceEvent) -> Void = { _ in }, flushEvents: @escaping () -> Void = {}
    ) {
        self.store = store
        self.shared = shared
        self.push = push
        self.resolve = resolve
        self.askUser = askUser
        self.readKeys = readKeys
        self.tell = tell
        self.flushEvents = flushEvents
    }
}
