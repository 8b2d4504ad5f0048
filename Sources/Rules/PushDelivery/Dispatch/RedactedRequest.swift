package import Timekeeping

/// A request to a provider in a form for operators: no token, no key and no text of a person.
package struct RedactedRequest: Hashable, Sendable {
    /// Method, scheme and host. The path is left out, because it can contain a token or a key.
    package let line: String
    /// Header fields, as `name: value`. The value is left out where it could be a secret.
    package let fields: [String]
    /// See ``RedactedPayload``.
    package let body: String

    /// The fields whose values the daemon itself writes.
    private static let shown: Set = ["content-type", "ttl", "urgency", "topic"]

    init(_ request: ProviderRequest, to token: PushToken) {
        let host = request.url.firstIndex(of: ":").map { start in
            request.url[start...].dropFirst(3).prefix { $0 != "/" && $0 != "?" }
        }
        let scheme = request.url.prefix { $0 != ":" }
        line = "\(request.method) \(scheme)://\(host ?? "")/…"
        fields = request.headers.map { header in
            let name = header.name.lowercased()
            let isShown = Self.shown.contains(name) || name.hasPrefix("apns-")
            return "\(header.name): \(isShown ? token.struck(from: header.value) : "…(\(header.value.utf8.count))")"
        }
        body = RedactedPayload.text(of: request.body)
    }
}

extension PushApp {
    /// The request of a push; `nil` if none is possible.
    package func redacted(_ push: PushRequest, now: UnixTime) -> RedactedRequest? {
        guard case .request(let request) = render(push, now: now) else { return nil }
        return RedactedRequest(request, to: push.token)
    }
}
