import Calling
import ProxyPolicy
import Routing

/// The engine's knowledge about flows, names and the upstream.
struct Network {
    var flows: KnownFlows
    /// Names that are being looked up.
    var lookups = Lookups()
    /// Whether the upstream is there.
    var upstream = UpstreamWatch()

    init(_ settings: ProxySettings) { flows = KnownFlows(settings) }
}
