import Addressing
import HTTPServer
package import Reactor
package import Telemetry

/// Answers the questions of other nodes: HTTP on the connections of the nodes' listener, whose peers have shown a
/// certificate of the cluster.
///
/// A node that is asked answers only for itself, so that no question goes in circles.
package final class NodeService {
    private let listener: HTTPListener

    /// Prepares the service. The routes of `router` ask no other node.
    package init(loop: EventLoop, router: ServiceRouter, log: Log) throws(SystemError) {
        var limits = HTTPListener.Limits()
        limits.connectionsPerSource = Self.connectionsOfNode
        listener = try HTTPListener(on: loop, limits: limits) { request, reply in
            guard case .found(let route, let parameters) = router.match(request.method, request.path) else {
                return reply.send(ServiceProblem(404, "no such resource").response())
            }
            guard let domains = DomainScope(asked: request.field(DomainScope.field)) else {
                return reply.send(ServiceProblem(400, "the domains are malformed").response())
            }
            let caller = ServiceCaller.node(request.remote.address)
            let audit = route.isChange ? route.audit(caller.name, request, log) : { @Sendable _, _ in }
            let call = ServiceCall(request, parameters, from: caller, reply, in: domains, on: loop, answered: audit)
            loop.startTask { _ in await route.serve(call) }
        }
    }

    /// Serves a connection of another node.
    package func serve(_ stream: StreamConnection) { listener.serve(stream) }

    private static let connectionsOfNode = 64
}

extension DomainScope {
    /// The header field with the domains for which another node asks.
    static let field = "sippushd-domains"

    /// Reads the domains of another node's question; `nil` for a malformed list. Without the field, the question is
    /// about the whole daemon.
    init?(asked text: String?) {
        guard let text else {
            self = .wholeDaemon
            return
        }
        guard !text.isEmpty else { return nil }
        self.init(text)
    }
}
