import Addressing
import ProxyCore

/// Which address a connection leaves from that the daemon makes: that of the listener which its messages name in Via. A PBX
/// knows us by it. Where a listener is bound to all addresses, the kernel chooses.
struct FlowSources {
    /// By the numbers of the listeners.
    private let addresses: [IPAddress?]
    /// For each listener the first one with the same address: they share connections.
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

    /// What a connection is asked for by: any from that address to that place.
    func wish(_ flow: Flow) -> Flow { flow.asked(by: flow.listener < shared.count ? shared[Int(flow.listener)] : 0) }

    /// All flows by which that connection may have been asked for.
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
