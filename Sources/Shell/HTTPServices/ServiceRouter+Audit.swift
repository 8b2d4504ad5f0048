package import HTTPServer
package import Telemetry

/// The object that a request changes, and its sender, for the log. Never a secret.
package struct AuditedChange: Sendable {
    /// The changed user, device, key, app, call or push; `nil` until the request was read.
    var object: String?
    /// The sender, if only the body names it; `nil` for the caller.
    var actor: String?

    /// Several objects as one text: the first ones, and the number of the others.
    static func list(_ names: [String]) -> String {
        let shown = names.prefix(longestList).map { name in
            name.utf8.count > longestName ? "\(name.prefix(longestName / 4))…" : name
        }
        let more = names.count - shown.count
        return shown.joined(separator: ", ") + (more > 0 ? " and \(more) more" : "")
    }

    private static let longestList = 5
    private static let longestName = 128
}

extension ServiceRouter.Route {
    /// Prepares the log line of a change: who requested it, from where, and with what result. Neither path, query nor
    /// body is logged, because they can contain tokens.
    ///
    /// - Parameters:
    ///   - name: the name of the caller.
    ///   - request: the request.
    ///   - log: receives the line.
    /// - Returns: a function that writes the line. Call it with the answer's status and the change that the handler
    ///   named.
    package func audit(
        _ name: String, _ request: HTTPRequest, _ log: Log
    ) -> @Sendable (Int, AuditedChange) -> Void {
        let (method, pattern, remote) = (method, pattern, request.remote)
        return { status, change in
            log.notice(
                "API change",
                [
                    .apiKey: .text(change.actor ?? name), .method: .text(method), .route: .text(pattern),
                    .object: .text(change.object ?? Self.unread), .status: .number(status), .source: .described(remote),
                ])
        }
    }

    /// The object of a request that was refused before it was read.
    private static var unread: String { "-" }
}
