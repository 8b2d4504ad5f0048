import Addressing
import ProxyCore

/// The source address of connections that the daemon opens: the address of the listener in their Via. A PBX knows the
/// daemon by it. If a listener is bound to all addresses, the kernel chooses.
struct FlowSources {
    /// By the numbers of the listeners.
    private let addresses: [IPAddress?]
    /// For each listener, the first listener with the same address. They share connections.
    private let shared: [UInt16]

    init(_ listeners: [Listener]) {
        var addresses: [IPAddress?] = []
        for listener in listeners {
            while addresses.count <= Int(listener.number) { addresses.append(nil) }
            addresses[Int(listener.number)] = listener.bound.address.isUnspecified ? nil : listener.bound.address
        }
        self.addresses = addresses
        shared = addresses.map { address in UInt16(clamping: addresses.firstIndex(of: address) ?? 0) }
    }

    /// `nil` lets the kernel choose.
    func address(of flow: Flow) -> IPAddress? {
        flow.listener < addresses.count ? addresses[Int(flow.listener)] : nil
    }

    /// The key of a connection: any connection from that address to that place.
    func wish(_ flow: Flow) -> Flow { flow.asked(by: flow.listener < shared.count ? shared[Int(flow.listener)] : 0) }

    /// All flows that this connection can serve.
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
