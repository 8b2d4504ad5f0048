import HTTPServer
package import HTTPServices
package import Reactor
package import Telemetry

/// The control socket: HTTP over a Unix socket that only the daemon's user and root can open. Clients of the control
/// socket need no key and can use all HTTP routes. The audit log has a line for each change through the control socket.
package final class ControlService {
    private let listener: HTTPListener

    package init(path: String, loop: EventLoop, router: ServiceRouter, log: Log = .silent) throws(SystemError) {
        listener = try HTTPListener(on: loop) { request, reply in
            guard case .found(let route, let parameters) = router.match(request.method, request.path) else {
                return reply.send(ServiceProblem(404, "no such resource").response())
            }
            let caller = ServiceCaller.operatorOfMachine(user: request.peerUser)
            let audit = route.isChange ? route.audit(caller.name, request, log) : { @Sendable _, _ in }
            let call = ServiceCall(
                request, parameters, from: caller, reply, in: .wholeDaemon, on: loop, answered: audit)
            loop.startTask { _ in await route.serve(call) }
        }
        try listener.listen(unixPath: path)
    }
}
