package import Timekeeping

/// A request to a push provider in the form that operators may see, without tokens, keys and texts of people.
package struct RedactedRequest: Hashable, Sendable {
    /// The method, the scheme and the host of the request. The path of the URL is omitted, because the path can contain
    /// a token or a key.
    package let line: String
    /// The header fields of the request, each as `name: value`. A value that could be secret is replaced by its length.
    package let fields: [String]
    /// The body of the request, in the form that ``RedactedPayload`` returns.
    package let body: String

    /// The names of the header fields whose values are shown. The daemon itself writes these values, so they contain no
    /// secrets.
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
    /// The request for a push, without secrets; `nil` if no request can be built for the push.
    package func redacted(_ push: PushRequest, now: UnixTime) -> RedactedRequest? {
        guard case .request(let request) = render(push, now: now) else { return nil }
        return RedactedRequest(request, to: push.token)
    }
}
