package import Addressing
package import Crypto
import Timekeeping

/// Accepts TCP, TLS or Unix-domain connections.
///
/// New connections wait in the kernel while the limit of connections is reached, or while the process has no free
/// descriptor.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread.
package final class StreamListener: @unchecked Sendable {
    /// The address of the listening socket; `0.0.0.0:0` for a Unix-domain socket.
    package let local: Endpoint
    /// The number of accepted connections that are open.
    private(set) package var connectionCount = 0
    /// The TLS context for new connections, replaced when certificates change.
    package var tls: TLSContext?
    /// The limits of connections that are accepted from now on. A change of `turn` has no effect on the listener
    /// itself.
    package var connectionLimits: StreamConnection.Limits
    /// The addresses of load balancers, whose connections must begin with a PROXY header.
    package var balancers: [AddressBlock] = []
    /// Called for each connection of a load balancer that sent no PROXY header in time, or sent other bytes first.
    package var unannouncedRefused: (StreamConnection) -> Void = { _ in }
    /// The connections of load balancers that have not sent their PROXY header yet.
    private var unannounced: [UInt64: StreamConnection] = [:]

    private let loop: EventLoop
    private let limit: Int
    private let acceptsInARow: Int
    private let accepted: (StreamConnection) -> Void
    private let unixPath: String?
    private var watch: FileWatch?
    private var retryTimer: LoopTimer?

    /// The maximum number of new connections that wait in the kernel. The kernel's own limit is `net.core.somaxconn`.
    /// The queue is long, because a phone whose connection finds no room in the queue tries again only after a second.
    private static let backlog: Int32 = 65_535
    /// The number of TCP connections that are accepted before the loop looks for new events.
    private static let acceptsInARow = 16
    /// The number of TLS connections that are accepted before the loop looks for new events. A new TLS session takes
    /// several times as much processor time as a TCP connection.
    private static let secureAcceptsInARow = 1
    private static let retryDelay: Duration = .milliseconds(200)

    /// Starts to listen for connections. The function `accepted` must retain and start each connection; a connection
    /// that is not retained is closed.
    package convenience init(
        boundTo endpoint: Endpoint, on loop: EventLoop, tls: TLSContext? = nil, limit: Int,
        connectionLimits: StreamConnection.Limits = .init(), accepted: @escaping (StreamConnection) -> Void
    ) throws(SystemError) {
        try self.init(
            loop.handover.socket(System.stream, boundTo: endpoint), unixPath: nil, on: loop, tls: tls, limit: limit,
            connectionLimits: connectionLimits, accepted: accepted)
    }

    /// Listens on a Unix-domain socket to which only this process's user and root can connect. The listener removes the
    /// socket's file at its end, if it created the file.
    package convenience init(
        unixPath: String, on loop: EventLoop, limit: Int, connectionLimits: StreamConnection.Limits = .init(),
        accepted: @escaping (StreamConnection) -> Void
    ) throws(SystemError) {
        if let handed = loop.handover.socket(boundTo: unixPath) {
            // The file of a passed socket belongs to the creator of the socket, and is not removed.
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

    /// Whether the listener must pause, because too many accepted connections wait for their TLS handshakes. The
    /// listener resumes when half of the waiting handshakes have started.
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
            // If memory for the TLS session is lacking, the connection is closed.
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

    /// Handles the result of the wait for a PROXY header; without a header, the connection is closed.
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

    /// Whether a peer may begin a TLS handshake; a refused connection is closed by its release.
    private func mayShakeHands(_ peer: Endpoint?) -> Bool {
        guard let peer, let limit = loop.handshakeLimit else { return true }
        return limit.admits(peer, now: loop.now)
    }

    private func connectionEnded() {
        connectionCount -= 1
        if connectionCount == limit - 1 { resume() }
    }

    // Stops accepting connections until the retry timer fires. The watch can fail only for lack of memory.
    private func pause() { try? watch?.watch(for: []) }

    private func resume() {
        do {
            try watch?.watch(for: .read)
        } catch {
            retryTimer?.arm(at: SystemClock.now + Self.retryDelay)
        }
    }
}
