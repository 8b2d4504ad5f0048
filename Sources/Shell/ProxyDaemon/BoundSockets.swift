import Addressing
import Bytes
import HTTPServices
import ProxyCore
import ProxyRuntime
import Reactor
import Routing

/// The open SIP sockets, one for each address under `listen`.
struct BoundSockets {
    /// The UDP sockets, by the numbers of their listeners.
    private(set) var sockets: [UInt16: UDPSocket] = [:]
    /// The TCP and TLS listeners, which accept connections as soon as the loop runs.
    private(set) var streamListeners: [StreamListener] = []
    private var webSocketListeners: [WebSocketListener] = []
    private(set) var listeners: [Listener] = []

    init(
        _ settings: DaemonSettings, _ limits: FlowLimits, _ streams: StreamFlows, tls: ListenerTLS, on loop: EventLoop
    ) throws(StartError) {
        for (index, address) in settings.listen.enumerated() {
            let number = UInt16(truncatingIfNeeded: index)
            var endpoint = address.endpoint
            do {
                switch address.transport {
                case .udp:
                    let socket = try UDPSocket(boundTo: endpoint, on: loop)
                    endpoint = socket.local
                    sockets[number] = socket
                case .ws, .wss:
                    let listener = try WebSocketListener(
                        boundTo: endpoint, on: loop, tls: address.transport == .wss ? tls.web : nil,
                        upgrade: Self.upgrade(settings, streams, number, address.transport), limits: limits,
                        balancers: settings.loadBalancers, unannounced: { streams.unannounced($0) })
                    endpoint = listener.local
                    webSocketListeners.append(listener)
                case .tcp, .tls:
                    let listener = try StreamListener(
                        boundTo: endpoint, on: loop, tls: address.transport == .tls ? tls.server : nil, limit: .max,
                        connectionLimits: StreamFlows.streamLimits(limits)
                    ) { stream in streams.accepted(stream, by: number, transport: address.transport) }
                    listener.balancers = settings.loadBalancers
                    listener.unannouncedRefused = { streams.unannounced($0) }
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
        // The last listener is a WebSocket path of the HTTP API; the path shares the HTTP API's socket.
        if settings.webSocket.apiPath != nil, let endpoint = settings.api.listen.first {
            listeners.append(
                Listener(
                    number: UInt16(truncatingIfNeeded: settings.listen.count),
                    transport: settings.api.certFile == nil ? .ws : .wss, bound: endpoint,
                    sentBy: Self.sentBy(endpoint, settings)))
        }
    }

    /// The handler of HTTP API requests that open a WebSocket; `nil` if the settings name no path.
    func apiUpgrade(_ settings: DaemonSettings, _ streams: StreamFlows) -> WebSocketUpgrade? {
        guard settings.webSocket.apiPath != nil, let listener = listeners.last else { return nil }
        return Self.upgrade(settings, streams, listener.number, listener.transport)
    }

    private static func upgrade(
        _ settings: DaemonSettings, _ streams: StreamFlows, _ number: UInt16, _ transport: Transport
    ) -> WebSocketUpgrade {
        WebSocketUpgrade(origins: settings.webSocket.origins) { stream, early in
            streams.accepted(webSocket: stream, early: early, by: number, transport: transport)
        }
    }

    /// Replaces the certificates of the TLS and WebSocket listeners, for new connections.
    func replaceTLS(_ tls: ListenerTLS) {
        guard let server = tls.server, let web = tls.web else { return }
        for listener in streamListeners where listener.tls != nil { listener.tls = server }
        for listener in webSocketListeners { listener.replaceTLS(web) }
    }

    /// Applies changed limits to the connections that the listeners accept from now on.
    func limitsChanged(_ limits: FlowLimits) {
        for listener in streamListeners { listener.connectionLimits = StreamFlows.streamLimits(limits) }
        for listener in webSocketListeners { listener.limitsChanged(limits) }
    }

    /// Returns the host and port that the listener writes into Via and Record-Route.
    private static func sentBy(_ endpoint: Endpoint, _ settings: DaemonSettings) -> ByteString {
        if let name = settings.advertise {
            return ByteString(name.contains(":") ? name : "\(name):\(endpoint.port)")
        }
        let address =
            endpoint.address.isUnspecified ? HostAddress.primary(isV4: endpoint.address.isV4) : endpoint.address
        return ByteString("\(address.uriHost):\(endpoint.port)")
    }
}
