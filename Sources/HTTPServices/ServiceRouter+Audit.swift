package import HTTPServer
package import Telemetry

extension ServiceRouter.Route {
    /// Writes one line for a change that somebody asked for: who, what, with what result. Neither query nor body.
    ///
    /// - Parameters:
    ///   - name: of the caller.
    ///   - request: what was asked.
    ///   - log: where the line goes.
    /// - Returns: to be called with the answer's status.
    package func audit(_ name: String, _ request: HTTPRequest, _ log: Log) -> @Sendable (Int) -> Void {
        let (method, pattern, remote) = (method, pattern, request.remote)
        return { status in
            log.notice(
                "API change",
                [
                    .apiKey: .text(name), .method: .text(method), .route: .text(pattern), .status: .number(status),
                    .source: .described(remote),
                ])
        }
    }
}
