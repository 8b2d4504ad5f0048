import Calling
package import ProxyCore
import ProxyPolicy
import Timekeeping

/// A daemon of the simulated world, with its engine and its local disk. In a cluster, the daemon is one of the nodes.
package final class SimulatedNode {
    package let number: Int
    package internal(set) var engine: ProxyEngine
    /// The next time for which the engine has a deadline.
    var timer: Instant?
    /// The changes that wait for the store, and the journal of calls. Without a cluster, also the rows of the store.
    var disk = SimulatedDisk()
    var timeline = SimulatedTimeline()
    /// The number of engines so far; events for a crashed engine are not delivered to the next engine.
    var generation = 0
    var isAlive = true
    /// The node's connection to the store of the cluster, and its signs of life.
    var storeLink = SimulatedStoreLink()
    /// The number of the engine's run in the cluster.
    var run: UInt32 = 0
    /// The calls whose changes the other nodes need.
    var sharedCalls = SharedCallStates()

    init(number: Int, engine: ProxyEngine) { (self.number, self.engine) = (number, engine) }
}
