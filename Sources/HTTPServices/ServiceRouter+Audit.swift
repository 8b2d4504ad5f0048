package import HTTPServer
package import Telemetry

extension ServiceRouter.Route {
    /// Prepares the line that the log gets for a change: who asked for what, from where, and with what result. Neither
    /// path, query nor body is logged: tokens may stand there.
    ///
    /// - Parameters:
    ///   - name: of the caller.
    ///   - request: what was asked.
    ///   - log: where the line goes.
    /// - Returns: writes the line; to be called with the answer's status, and with what was changed, where the handler has
    ///   said so.
    package func audit(_ name: String, _ request: HTTPRequest, _ log: Log) -> @Sendable (Int, String?) -> Void {
        let (method, pattern, remote) = (method, pattern, request.remote)
        return { status, object in
            guard let object else {
                return log.notice(
                    "API change",
                    [
                        .apiKey: .text(name), .method: .text(method), .route: .text(pattern),
                        .status: .number(status), .source: .described(remote),
                    ])
            }
            log.notice(
                "API change",
                [
                    .apiKey: .text(name), .method: .text(method), .route: .text(pattern), .object: .text(object),
                    .status: .number(status), .source: .described(remote),
                ])
        }
    }
}
