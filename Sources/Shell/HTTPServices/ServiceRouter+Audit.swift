package import HTTPServer
package import Telemetry

/// The object that a request changes, and the sender of the request. The log shows the names of the object and of the
/// sender, so the names must not be secrets.
package struct AuditedChange: Sendable {
    /// The changed user, device, key, app, call or push; `nil` until the handler has read the request.
    var object: String?
    /// The sender of the request, if only the body names the sender; for `nil`, the log names the authenticated sender.
    var actor: String?

    /// Joins the names of several objects: the first names, and the number of the others.
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
    /// Prepares the log line of a change: who requested it, from which address, and with which result. The log line of
    /// a change has neither path, query nor body, because they can contain tokens.
    ///
    /// - Parameters:
    ///   - name: the name of the authenticated sender.
    ///   - request: the request that changes something.
    ///   - log: receives the line of the audit log.
    /// - Returns: a function that writes the line, called with the status of the answer and the change.
    package func audit(
        _ name: String, _ request: HTTPRequest, _ log: Log
    ) -> @Sendable (Int, AuditedChange) -> Void {
        let (method, pattern, remote) = (method, pattern, request.remote)
        return { status, change in
            log.notice(
                "an API request made a change",
                [
                    .apiKey: .text(change.actor ?? name), .method: .text(method), .route: .text(pattern),
                    .object: .text(change.object ?? Self.unread), .status: .number(status), .source: .described(remote),
                ])
        }
    }

    /// The text for the object of a request, if the request was refused before it was read.
    private static var unread: String { "-" }
}
