import HTTPServer
import Reactor
import Telemetry

/// The control socket: HTTP over a Unix socket that only the daemon's user may open, who may do everything.
final class ControlService {
    private let listener: HTTPListener

    init(path: String, loop: EventLoop, router: ServiceRouter) throws(SystemError) {
        listener = try HTTPListener(on: loop) { request, reply in
            guard case .found(let route, let parameters) = router.match(request.method, request.path) else {
                return reply.send(ServiceProblem(404, "no such resource").response())
            }
            route.serve(ServiceCall(request, parameters, from: .operatorOfMachine, reply))
        }
        try listener.listen(unixPath: path)
    }
}
