import Addressing
import Bytes
import ProxyCore
import ProxyRuntime
import Reactor

/// The sockets on which SIP is spoken, as the settings name them.
struct BoundSockets {
    /// The UDP sockets, by the numbers of their listeners.
    private(set) var sockets: [UInt16: UDPSocket] = [:]
    /// They accept connections as soon as the loop runs.
    private(set) var streamListeners: [StreamListener] = []
    private(set) var listeners: [Listener] = []

    init(_ settings: DaemonSettings, _ limits: FlowLimits, _ streams: StreamFlows, on loop: EventLoop)
        throws(StartError)
    {
        for (index, address) in settings.listen.enumerated() {
            let number = UInt16(truncatingIfNeeded: index)
            var endpoint = address.endpoint
            do {
                if address.transport == .udp {
                    let socket = try UDPSocket(boundTo: endpoint, on: loop)
                    endpoint = socket.local
                    sockets[number] = socket
                } else {
                    let listener = try StreamListener(
                        boundTo: endpoint, on: loop, limit: .max,
                        connectionLimits: StreamFlows.streamLimits(limits)
                    ) { stream in streams.accepted(stream, by: number) }
                    endpoint = listener.local
                    streamListeners.append(listener)
                }
            } catch {
                throw .cannotListen(on: "\(address.transport.parameterName):\(endpoint)", error)
            }
            listeners.append(
                Listener(
                    number: number, transport: address.transport, bound: endpoint,
                    sentBy: Self.sentBy(endpoint, settings)))
        }
    }

    /// The host and port that Via and Record-Route carry.
    private static func sentBy(_ endpoint: Endpoint, _ settings: DaemonSettings) -> ByteString {
        if let name = settings.advertise {
            return ByteString(name.contains(":") ? name : "\(name):\(endpoint.port)")
        }
        let address =
            endpoint.address.isUnspecified ? HostAddress.primary(isV4: endpoint.address.isV4) : endpoint.address
        return ByteString("\(address.uriHost):\(endpoint.port)")
    }
}
