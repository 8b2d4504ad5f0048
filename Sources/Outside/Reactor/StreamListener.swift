package import Addressing
package import Crypto
import Timekeeping

/// Accepts TCP, TLS or Unix-domain connections.
///
/// At its limit, and when the process has no descriptor left, it leaves new connections in the kernel's queue for a
/// while.
///
/// - `@unchecked Sendable` because every use is checked to be on the loop's thread.
package final class StreamListener: @unchecked Sendable {
    /// The address that the kernel bound; `0.0.0.0:0` on a Unix-domain socket.
    package let local: Endpoint
    /// How many accepted connections have not ended.
    private(set) package var connectionCount = 0
    /// The context for connections that are accepted from now on. It is replaced when certificates change.
    package var tls: TLSContext?
    /// Those whose connections begin with a PROXY header, and must.
    package var balancers: [AddressBlock] = []
    /// Told of each of their connections that began with something else, or with nothing in time.
    package var unannouncedRefused: (StreamConnection) -> Void = { _ in }
    /// Their connections whose header has not come yet.
    private var unannounced: [UInt64: StreamConnection] = [:]

    private let loop: EventLoop
    private let limit: Int
    private let acceptsInARow: Int
    private let connectionLimits: StreamConnection.Limits
    private let accepted: (StreamConnection) -> Void
    private let unixPath: String?
    private var watch: FileWatch?
    private var retryTimer: LoopTimer?

    /// How many new connections may wait in the kernel, which takes no more than `net.core.somaxconn`. When phones come
    /// back all at once, a connection for which there is no place is tried again only a second later.
    private static let backlog: Int32 = 65_535
    /// So many are accepted before new readiness is looked for.
    private static let acceptsInARow = 16
    /// Each brings a session of its own, which costs several times as much.
    private static let secureAcceptsInARow = 1
    private static let retryDelay: Duration = .milliseconds(200)

    /// Listens at once. Whoever gets an accepted connection must hold and start it. One that is not held is closed.
    package convenience init(
        boundTo endpoint: Endpoint, on loop: EventLoop, tls: TLSContext? = nil, limit: Int,
        connectionLimits: StreamConnection.Limits = .init(), accepted: @escaping (StreamConnection) -> Void
    ) throws(SystemError) {
        try self.init(
            loop.handover.socket(System.stream, boundTo: endpoint), unixPath: nil, on: loop, tls: tls, limit: limit,
            connectionLimits: connectionLimits, accepted: accepted)
    }

    /// Listens on a socket file that only this user may connect to. The file is removed with the listener that made it.
    package convenience init(
        unixPath: String, on loop: EventLoop, limit: Int, connectionLimits: StreamConnection.Limits = .init(),
        accepted: @escaping (StreamConnection) -> Void
    ) throws(SystemError) {
        if let handed = loop.handover.socket(boundTo: unixPath) {
            // The file belongs to whoever made the socket.
            try self.init(
                handed, unixPath: nil, on: loop, tls: nil, limit: limit, connectionLimits: connectionLimits,
                accepted: accepted)
            return
        }
        try self.init(
            System.boundUnixSocket(at: unixPath), unixPath: unixPath, on: loop, tls: nil, limit: limit,
            connectionLimits: connectionLimits, accepted: accepted)
    }

    private init(
        _ descriptor: consuming Descriptor, unixPath: String?, on loop: EventLoop, tls: TLSContext?, limit: Int,
        connectionLimits: StreamConnection.Limits, accepted: @escaping (StreamConnection) -> Void
    ) throws(SystemError) {
        loop.checkThread()
        self.loop = loop
        self.tls = tls
        self.limit = limit
        acceptsInARow = tls == nil ? Self.acceptsInARow : Self.secureAcceptsInARow
        self.connectionLimits = connectionLimits
        self.accepted = accepted
        self.unixPath = unixPath
        local = System.localEndpoint(descriptor.number) ?? Endpoint(.anyV4, 0)
        try System.listen(descriptor.number, backlog: Self.backlog)
        let turn = tls == nil ? connectionLimits.turn : .last
        watch = try FileWatch(owning: descriptor, on: loop, turn: turn, until: nil) { [weak self] _ in
            self?.acceptWaiting()
        }
        retryTimer = try LoopTimer(on: loop) { [weak self] in self?.resume() }
        try watch?.watch(for: .read)
    }

    deinit {
        if let unixPath { System.removeFile(unixPath) }
    }

    private func acceptWaiting() {
        for _ in 0..<acceptsInARow {
            guard let watch, watch.interest.contains(.read) else { return }
            guard connectionCount < limit else { return pause() }
            if tls != nil, mustWait() { return }
            do {
                guard let descriptor = try System.accept(watch.descriptor) else { return }
                take(descriptor)
            } catch {
                pause()
                retryTimer?.arm(at: SystemClock.now + Self.retryDelay)
                return
            }
        }
    }

    /// Whether more wait for their handshakes than can be looked at soon; then accepting goes on when they have been.
    private func mustWait() -> Bool {
        guard let handshakes = try? loop.handshakes(), !handshakes.hasRoom else { return false }
        pause()
        let loop = loop
        handshakes.whenThereIsRoom { [weak self] in loop.post { [weak self] in self?.resume() } }
        return true
    }

    private func take(_ descriptor: consuming Descriptor) {
        var session: TLSSession?
        let announces = !balancers.isEmpty
        if tls != nil, !announces || !isBalancer(System.remoteEndpoint(descriptor.number)),
            !mayShakeHands(System.remoteEndpoint(descriptor.number))
        {
            return
        }
        if let tls {
            // Fails for lack of memory only; the connection is closed then.
            guard let made = try? tls.makeServerSession() else { return }
            session = made
        }
        connectionCount += 1
        let loop = loop
        weak let listener = self
        let connection = StreamConnection(
            descriptor, on: loop, tls: session, limits: connectionLimits,
            ended: { loop.dispose { listener?.connectionEnded() } })
        guard announces, isBalancer(connection.remote) else { return accepted(connection) }
        let number = connection.id
        unannounced[number] = connection
        do {
            try connection.readProxyHeader { [weak listener] end in listener?.announced(number, end) }
        } catch {
            unannounced[number] = nil
        }
    }

    /// A balancer has said whom a connection is from; one on which it did not is closed.
    private func announced(_ number: UInt64, _ end: ProxyHeaderWait.End) {
        guard let connection = unannounced.removeValue(forKey: number) else { return }
        switch end {
        case .header where connection.tls != nil && !mayShakeHands(connection.remote): break
        case .header: accepted(connection)
        case .none: unannouncedRefused(connection)
        case .nothing: break
        }
    }

    private func isBalancer(_ peer: Endpoint?) -> Bool {
        guard let peer else { return false }
        return balancers.contains { $0.contains(peer.address) }
    }

    /// One that may not is closed by being dropped.
    private func mayShakeHands(_ peer: Endpoint?) -> Bool {
        guard let peer, let limit = loop.handshakeLimit else { return true }
        return limit.admits(peer, now: loop.now)
    }

    private func connectionEnded() {
        connectionCount -= 1
        if connectionCount == limit - 1 { resume() }
    }

    // Changing the interest fails only for lack of memory; the retry timer then comes again.
    private func pause() { try? watch?.watch(for: []) }

    private func resume() {
        do {
            try watch?.watch(for: .read)
        } catch {
            retryTimer?.arm(at: SystemClock.now + Self.retryDelay)
        }
    }
}
