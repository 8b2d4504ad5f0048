import Addressing
import ProxyCore
import Routing

/// The source addresses of connections that the daemon opens. A connection is opened from the address of the listener
/// in Via, because a PBX knows the daemon by its listening address. For a listener on all addresses, the kernel chooses
/// the source.
struct OutgoingAddresses {
    /// The addresses of the listeners, with the listener's number as the index.
    private let addresses: [IPAddress?]
    /// For each listener, the number of the first listener with the same address. Listeners with equal addresses share
    /// connections. The nodes' listener shares no connection, because only its connections lead to nodes.
    private let shared: [UInt16]

    init(_ listeners: [Listener]) {
        var addresses: [IPAddress?] = []
        let nodes = listeners.first(where: \.isForNodes)?.number
        for listener in listeners {
            while addresses.count <= Int(listener.number) { addresses.append(nil) }
            addresses[Int(listener.number)] = listener.bound.address.isUnspecified ? nil : listener.bound.address
        }
        self.addresses = addresses
        shared = addresses.indices.map { index in
            let fitting = addresses.indices.first { addresses[$0] == addresses[index] && $0 != nodes.map(Int.init) }
            return nodes == UInt16(clamping: index) ? UInt16(clamping: index) : UInt16(clamping: fitting ?? 0)
        }
    }

    /// The address from which the connection for the flow is opened; `nil` if the kernel chooses the address.
    func address(of flow: Flow) -> IPAddress? {
        flow.listener < addresses.count ? addresses[Int(flow.listener)] : nil
    }

    /// The key of the connection for the flow: all flows with the same source and destination share one connection.
    func wish(_ flow: Flow) -> Flow { flow.asked(by: flow.listener < shared.count ? shared[Int(flow.listener)] : 0) }

    /// Returns all flows that can use the given connection.
    func askers(of flow: Flow) -> [Flow] {
        guard flow.listener < shared.count else { return [flow.on(connection: 0)] }
        let own = shared[Int(flow.listener)]
        return shared.indices.filter { shared[$0] == own }.map { flow.asked(by: UInt16(clamping: $0)) }
    }
}

extension Flow {
    fileprivate func asked(by listener: UInt16) -> Flow {
        Flow(transport: transport, listener: listener, connection: 0, remote: remote, server: server)
    }
}
