import Addressing
import Bytes
import HTTPServices
import ProxyCore
import ProxyPolicy
import ProxyRuntime
import Reactor
import Routing

/// The open SIP sockets, one for each address under `listen`, and one for other nodes of the cluster.
struct BoundSockets {
    /// The UDP sockets, by the numbers of their listeners.
    private(set) var sockets: [UInt16: UDPSocket] = [:]
    /// The TCP and TLS listeners, which accept connections as soon as the loop runs.
    private(set) var streamListeners: [StreamListener] = []
    private var webSocketListeners: [WebSocketListener] = []
    /// The TLS listener for other nodes; `nil` without a cluster.
    private var nodeConnections: StreamListener?
    /// The WebSocket path of the HTTP API; `nil` if the settings name no path.
    private var apiListener: Listener?
    private(set) var listeners: [Listener] = []

    /// The listener for other nodes of the cluster; `nil` without a cluster.
    var nodeListener: Listener? { listeners.first(where: \.isForNodes) }

    /// This daemon as a node of the cluster; `nil` without a cluster.
    ///
    /// - Parameters:
    ///   - settings: the settings of the daemon.
    ///   - run: the number of this run; `nil` if no other daemon uses the store.
    ///   - secret: the key of the hashes that the nodes exchange.
    /// - Returns: the node, with the address at which other nodes reach it.
    func node(of settings: DaemonSettings, run: UInt32?, secret: SipHash.Key) -> OwnNode? {
        run.flatMap { settings.ownNode(at: nodeListener, run: $0, secret: secret) }
    }

    /// The transports by which the daemon reaches hosts that are no nodes.
    var spoken: Set<Transport> { Set(listeners.filter { !$0.isForNodes }.map(\.transport)) }

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
        // The WebSocket path of the HTTP API has a listener, which shares the HTTP API's socket.
        if settings.webSocket.apiPath != nil, let endpoint = settings.api.listen.first {
            let listener = Listener(
                number: UInt16(truncatingIfNeeded: listeners.count),
                transport: settings.api.certFile == nil ? .ws : .wss, bound: endpoint,
                sentBy: Self.sentBy(endpoint, settings))
            listeners.append(listener)
            apiListener = listener
        }
        try listenForNodes(settings.cluster, limits, streams, tls: tls, on: loop)
    }

    /// Opens the listener for other nodes of the cluster. No load balancer is in front of it.
    private mutating func listenForNodes(
        _ cluster: ClusterSettings, _ limits: FlowLimits, _ streams: StreamFlows, tls: ListenerTLS,
        on loop: EventLoop
    ) throws(StartError) {
        guard let endpoint = cluster.listen, let context = tls.nodes else { return }
        let number = UInt16(truncatingIfNeeded: listeners.count)
        let listener: StreamListener
        do {
            listener = try StreamListener(
                boundTo: endpoint, on: loop, tls: context, limit: .max,
                connectionLimits: StreamFlows.streamLimits(limits)
            ) { stream in streams.accepted(stream, by: number, transport: .tls) }
        } catch {
            throw .cannotListen(on: "cluster.listen \(endpoint)", error)
        }
        nodeConnections = listener
        let place = cluster.advertise ?? Self.place(listener.local)
        listeners.append(
            Listener(
                number: number, transport: .tls, bound: listener.local, sentBy: ByteString(place.description),
                isForNodes: true))
    }

    /// The handler of HTTP API requests that open a WebSocket; `nil` if the settings name no path.
    func apiUpgrade(_ settings: DaemonSettings, _ streams: StreamFlows) -> WebSocketUpgrade? {
        guard let listener = apiListener else { return nil }
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
        if let nodes = tls.nodes { nodeConnections?.tls = nodes }
        guard let server = tls.server, let web = tls.web else { return }
        for listener in streamListeners where listener.tls != nil { listener.tls = server }
        for listener in webSocketListeners { listener.replaceTLS(web) }
    }

    /// Applies changed limits to the connections that the listeners accept from now on.
    func limitsChanged(_ limits: FlowLimits) {
        let streams = StreamFlows.streamLimits(limits)
        for listener in streamListeners { listener.connectionLimits = streams }
        nodeConnections?.connectionLimits = streams
        for listener in webSocketListeners { listener.limitsChanged(limits) }
    }

    /// Returns the host and port that the listener writes into Via and Record-Route.
    private static func sentBy(_ endpoint: Endpoint, _ settings: DaemonSettings) -> ByteString {
        if let name = settings.advertise {
            return ByteString(name.contains(":") ? name : "\(name):\(endpoint.port)")
        }
        return ByteString(place(endpoint).description)
    }

    /// The address at which other hosts reach a listener, for example this machine's first address instead of 0.0.0.0.
    private static func place(_ bound: Endpoint) -> Endpoint {
        guard bound.address.isUnspecified else { return bound }
        return Endpoint(HostAddress.primary(isV4: bound.address.isV4), bound.port)
    }
}
