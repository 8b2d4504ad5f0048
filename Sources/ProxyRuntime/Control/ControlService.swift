import HTTPServer
import Reactor
import Telemetry

/// The control socket: HTTP over a Unix socket that only the daemon's user may open.
final class ControlService {
    private let listener: HTTPListener

    init(path: String, loop: EventLoop, router: ControlRouter, explainer: Explainer) throws(SystemError) {
        listener = try HTTPListener(on: loop) { request, reply in
            if Explainer.isAsked(request) { return explainer.answer(request, reply) }
            let answer = router.answer(request.method, request.path, body: request.body)
            let type = answer.status == 200 ? "application/json" : "application/problem+json"
            reply.send(HTTPResponse(status: answer.status, type: type, body: answer.body))
        }
        try listener.listen(unixPath: path)
    }
}
