import Calling
import ProxyPolicy
import Routing

/// The engine's knowledge about flows, host names and the upstream.
struct Network: ~Copyable {
    var flows: KnownFlows
    /// The running DNS look-ups, and the addresses that refused TCP lately.
    var lookups = Lookups()
    var upstream = UpstreamState()

    init(_ settings: ProxySettings) { flows = KnownFlows(settings) }
}
