package import HTTPServer
package import Telemetry

/// What a request changes and who asks for it, as the log says it. No secret stands here.
package struct AuditedChange: Sendable {
    /// The user, device, key, app, call or push that is changed; `nil` until the request was read.
    var object: String?
    /// Who asks, where the body alone shows it; `nil` for the caller.
    var actor: String?

    /// Several objects as one text: the first ones, and how many more.
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
    /// Prepares the line that the log gets for a change: who asked for what, from where, and with what result. Neither
    /// path, query nor body is logged: tokens may stand there.
    ///
    /// - Parameters:
    ///   - name: of the caller.
    ///   - request: what was asked.
    ///   - log: where the line goes.
    /// - Returns: writes the line; to be called with the answer's status, and with what the handler has said of the change.
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

    /// Stands for the object of a request that was refused before it was read.
    private static var unread: String { "-" }
}
