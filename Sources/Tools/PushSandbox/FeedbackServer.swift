package import Addressing
package import Crypto
package import Reactor
import Timekeeping

/// Apple's feedback service as it was until 2021: a client with the app's certificate gets the list, which is empty
/// from then on.
///
/// Used only on its loop.
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
    /// Long enough for a slice to be sent before the next, so that each is a separate TLS record.
    private static let pause: Duration = .milliseconds(1)
    private static let outputLimit = 8 << 20

    /// The list belongs to the semantics, where the control resources fill it.
    package init(loop: EventLoop, semantics: ProviderSemantics) {
        self.loop = loop
        self.semantics = semantics
    }

    deinit {
        for peer in peers.values { peer.connection.close() }
    }

    /// `context` must ask clients for their certificate.
    ///
    /// - Returns: the address, with the port that the kernel chose for port 0.
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
            // Input from clients is ignored.
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

    /// Sends the next slice after the previous one was sent, and closes after the last.
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
