package import Addressing
package import Crypto
package import Reactor
import Timekeeping

/// Imitates Apple's feedback service, which existed until 2021. A client with the app's certificate gets all records,
/// and the list is then empty.
///
/// Only its event loop uses the feedback server.
package final class FeedbackServer {
    private let loop: EventLoop
    private let semantics: ProviderSemantics
    private var listeners: [StreamListener] = []
    private var peers: [UInt64: Peer] = [:]

    private struct Peer {
        let connection: StreamConnection
        var rest: ArraySlice<UInt8> = []
        var slice = Int.max
        var timer: LoopTimer?
    }

    private static let connectionLimit = 100
    /// The pause between two slices of the list, so that each slice is sent in its own TLS record.
    private static let pause: Duration = .milliseconds(1)
    private static let outputLimit = 8 << 20

    /// Creates a server that sends the feedback list of `semantics`. Tests fill the feedback list by control requests.
    package init(loop: EventLoop, semantics: ProviderSemantics) {
        self.loop = loop
        self.semantics = semantics
    }

    deinit {
        for peer in peers.values { peer.connection.close() }
    }

    /// Starts to listen on an address, with a TLS context that asks clients for a certificate.
    ///
    /// - Returns: the address, with the port that the kernel has chosen for port 0.
    package func listen(_ endpoint: Endpoint, _ context: TLSContext) throws(SystemError) -> Endpoint {
        var limits = StreamConnection.Limits()
        limits.output = Self.outputLimit
        let made = try StreamListener(
            boundTo: endpoint, on: loop, tls: context, limit: Self.connectionLimit, connectionLimits: limits
        ) { [weak self] connection in self?.accepted(connection) }
        listeners.append(made)
        return made.local
    }

    private func accepted(_ connection: StreamConnection) {
        let handlers = StreamConnection.Handlers(
            connected: { [weak self] connection in self?.connected(connection) },
            // Clients of the feedback service send no data.
            received: { _, bytes in bytes.count },
            closed: { [weak self] connection, _ in self?.peers[connection.id] = nil })
        peers[connection.id] = Peer(connection: connection)
        do {
            try connection.start(handlers)
        } catch {
            peers[connection.id] = nil
        }
    }

    private func connected(_ connection: StreamConnection) {
        let list = semantics.feedback
        semantics.feedback = FeedbackList()
        peers[connection.id]?.rest = list.bytes[...]
        peers[connection.id]?.slice = list.slice ?? .max
        let id = connection.id
        peers[id]?.timer = try? LoopTimer(on: loop) { [weak self] in self?.sendOn(id) }
        sendOn(id)
    }

    /// Sends the next part of the list when the previous part was sent, and closes the connection after the last part.
    private func sendOn(_ id: UInt64) {
        guard let peer = peers[id] else { return }
        if peer.connection.outputCount == 0 {
            peer.connection.send(Array(peer.rest.prefix(peer.slice)))
            peers[id]?.rest = peer.rest.dropFirst(peer.slice)
        }
        guard peers[id]?.rest.isEmpty == false, let timer = peer.timer else {
            peers[id] = nil
            return peer.connection.close(flushing: true)
        }
        timer.arm(at: loop.now + Self.pause)
    }
}
