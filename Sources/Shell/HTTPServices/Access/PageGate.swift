import Addressing
import Bytes
import Crypto
package import HTTPSemantics
package import HTTPServer
package import Reactor
package import Telemetry
import Timekeeping

/// Decides which requests of browsers the admin listener accepts. The gate refuses requests that another web site caused.
///
/// - The class is `@unchecked Sendable`, because only the event loop of the shard uses it.
package final class PageGate: @unchecked Sendable {
    /// The host names under which browsers may reach the listener, in lower case. IP addresses and `localhost` are
    /// always allowed, because no other web site can have them as its name.
    private var names: Set<String>
    package let usesTLS: Bool
    package let sessions: PageSessions
    private let loop: EventLoop
    private let log: Log
    private var refusals = LogRateLimit()
    private var failures = LogRateLimit()

    package init(names: [String], usesTLS: Bool, keys: APIKeyRing, loop: EventLoop, log: Log) {
        self.names = Set(names.map { $0.lowercased() })
        self.usesTLS = usesTLS
        sessions = PageSessions(keys: keys)
        self.loop = loop
        self.log = log
    }

    package func namesChanged(_ names: [String]) { self.names = Set(names.map { $0.lowercased() }) }

    /// The prefix `__Host-` forbids cookies of other hosts and of connections without TLS (RFC 6265bis section 4.1.3.2).
    package var cookieName: String { usesTLS ? "__Host-sippushd" : "sippushd" }

    /// The secret in the request's cookie; `nil` for no cookie or several cookies.
    package func secret(in request: HTTPRequest) -> String? {
        var found: [Substring] = []
        for field in request.fields where field.name.lowercased() == "cookie" {
            for part in field.value.split(separator: ";") {
                let pair = part.drop { $0 == " " }
                if pair.hasPrefix("\(cookieName)=") { found.append(pair.dropFirst(cookieName.count + 1)) }
            }
        }
        guard found.count == 1, let secret = found.first, secret.utf8.count == 43 else { return nil }
        return String(secret)
    }

    /// The header field that gives a browser the session's secret, or that removes the secret.
    package func cookie(_ secret: String?) -> HTTPField {
        let age = secret == nil ? 0 : PageSessions.lifetime.components.seconds
        return HTTPField(
            "Set-Cookie",
            "\(cookieName)=\(secret ?? ""); HttpOnly; SameSite=Strict; Path=/; Max-Age=\(age)"
                + (usesTLS ? "; Secure" : ""))
    }

    // MARK: Checks

    /// The refusal of a request under a host name that the settings do not list; `nil` for an allowed name.
    package func refusalOfHost(_ request: HTTPRequest) -> ServiceProblem? {
        guard let host = request.field("host"), let name = Self.hostName(host) else {
            return refuse(request, "the Host field is malformed", advice: nil)
        }
        guard IPAddress(name) == nil, name != "localhost", !names.contains(name) else { return nil }
        return refuse(
            request, "the host name \(name) is not in admin.names", advice: "add \(name) to admin.names, then SIGHUP")
    }

    /// The refusal of a browser's request that another web site may have caused; `nil` for an allowed request.
    package func refusal(of request: HTTPRequest) -> ServiceProblem? {
        if let problem = refusalOfHost(request) { return problem }
        let origins = request.fields.filter { $0.name.lowercased() == "origin" }.map { $0.value.lowercased() }
        let host = request.field("host")?.lowercased() ?? ""
        guard origins.allSatisfy({ $0 == "https://\(host)" || (!usesTLS && $0 == "http://\(host)") }) else {
            return refuse(request, "the Origin is another site", advice: nil)
        }
        let sites = request.fields.filter { $0.name.lowercased() == "sec-fetch-site" }.map { $0.value.lowercased() }
        guard sites.allSatisfy({ $0 == "same-origin" || $0 == "none" }) else {
            return refuse(request, "the request comes from another site", advice: nil)
        }
        return nil
    }

    /// The refusal of a change without the session's token; `nil` if the token is right.
    package func refusalOfToken(_ request: HTTPRequest, _ secret: String) -> ServiceProblem? {
        let tokens = request.fields.filter { $0.name.lowercased() == Self.tokenField }.map(\.value)
        let wanted = Array(PageSessions.token(of: secret).utf8)
        guard tokens.count == 1, equalInConstantTime(Array(tokens[0].utf8), wanted) else {
            return refuse(request, "the session's token is missing or wrong", advice: nil)
        }
        return nil
    }

    private static let tokenField = "x-session-token"

    private func refuse(_ request: HTTPRequest, _ reason: String, advice: String?) -> ServiceProblem {
        if let suppressed = refusals.admit(now: loop.now) {
            var fields: KeyValuePairs<LogKey, LogValue> = [
                .reason: .text(reason), .source: .described(request.remote), .suppressed: .number(suppressed),
            ]
            if let advice {
                fields = [
                    .reason: .text(reason), .advice: .text(advice), .source: .described(request.remote),
                    .suppressed: .number(suppressed),
                ]
            }
            log.warning("the admin API refused a browser's request", fields)
        }
        return ServiceProblem(403, "the request of this browser is not allowed", detail: advice ?? reason)
    }

    /// Writes the log line of a failed login.
    func loginFailed(_ request: HTTPRequest, _ key: APIKey?, _ reason: String) {
        guard let suppressed = failures.admit(now: loop.now) else { return }
        log.notice(
            "a login to the web page failed",
            [
                .apiKey: .text(key?.name ?? "-"), .reason: .text(reason), .source: .described(request.remote),
                .suppressed: .number(suppressed),
            ])
    }

    /// The host of a `Host` field in lower case, without port and brackets; `nil` for an invalid host.
    static func hostName(_ field: String) -> String? {
        let text = field.lowercased()
        var host = Substring(text)
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]") else { return nil }
            host = text[text.index(after: text.startIndex)..<end]
            guard isPort(text[text.index(after: end)...]), IPAddress(String(host)) != nil else { return nil }
            return String(host)
        }
        if let colon = text.firstIndex(of: ":") {
            guard isPort(text[colon...]) else { return nil }
            host = text[..<colon]
        }
        let isName = host.utf8.allSatisfy { $0.isNameByte || $0 == UInt8(ascii: ".") }
        return isName && (1...253).contains(host.utf8.count) ? String(host) : nil
    }

    private static func isPort(_ text: Substring) -> Bool {
        text.isEmpty
            || (text.first == ":" && text.count <= 6 && text.dropFirst().utf8.allSatisfy(\.isASCIIDigit))
    }

    // MARK: Answers

    /// The header fields of answers to a browser, except files of the page. With these fields, no other web site can
    /// read the answer or show it in a frame.
    package static let fields = [
        HTTPField("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
        HTTPField("X-Content-Type-Options", "nosniff"), HTTPField("X-Frame-Options", "DENY"),
        HTTPField("Referrer-Policy", "no-referrer"), HTTPField("Cross-Origin-Resource-Policy", "same-origin"),
        HTTPField("Cache-Control", "no-store"),
    ]
}
