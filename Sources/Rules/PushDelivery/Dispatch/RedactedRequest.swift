package import Timekeeping

/// A request to a provider in a form that operators may see: without tokens, keys and texts of people.
package struct RedactedRequest: Hashable, Sendable {
    /// The method, the scheme and the host. The path is left out, because it can contain a token or a key.
    package let line: String
    /// The header fields, as `name: value`. A value that could be secret is left out.
    package let fields: [String]
    /// The body, as ``RedactedPayload`` describes it.
    package let body: String

    /// The names of header fields whose values are shown, because the daemon itself writes them.
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
    /// The request for a push, without secrets; `nil` if there can be none.
    package func redacted(_ push: PushRequest, now: UnixTime) -> RedactedRequest? {
        guard case .request(let request) = render(push, now: now) else { return nil }
        return RedactedRequest(request, to: push.token)
    }
}
