import Calling
import ProxyPolicy
import Routing

/// The engine's knowledge about flows, host names and the upstream.
struct Network: ~Copyable {
    var flows: KnownFlows
    /// The running DNS look-ups, and the addresses that refused TCP lately.
    var lookups = Lookups()
    var upstream = UpstreamState()
    /// The users for whose phones something waits at this node, as the store knows.
    var waiting = WaitingUsers()
    /// The calls that other nodes continue if this node gives no sign of life.
    var held = HeldCalls()
    /// The duties that one node has for all nodes.
    var duties = NodeDuties()

    init(_ settings: ProxySettings, _ functions: ProxyFunctions) {
        flows = KnownFlows(settings, nodes: settings.node.map { Nodes($0, seal: functions.seal) })
    }
}
