import Addressing
import Crypto
import HTTP1Connections
import HTTPClient
import HTTPSemantics
import Reactor
import Resolver
import Settings
import Telemetry

/// Posts requests to the URLs of receivers. Webhooks of device registration and events share this code.
///
/// The connector resolves the host name of a URL itself, connects to the address that it has checked, and follows no
/// redirects. At most 64 KiB of an answer are read.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
final class WebhookConnector: @unchecked Sendable {
    /// A function that resolves a host name to all of its addresses, and calls back once, on the event loop.
    typealias Resolve = (String, @escaping @Sendable ([IPAddress]) -> Void) -> Void

    /// The settings of a kind of receivers.
    struct Rules {
        var destinations: CallbackGuard
        var authorityFile: String?
        /// The setting that names ``authorityFile``, for log lines.
        var authoritySetting: String
        var source: IPAddress?
        /// The maximum time from the connection to the end of the answer.
        var timeout: Duration = .seconds(10)
    }

    /// The answer to a request, or the reason why a request got no answer.
    enum Outcome {
        case answered(HTTPClientResponse)
        case failed(String)
    }

    private let loop: EventLoop
    private let http: HTTPSession
    private let rules: Rules
    /// The last usable contents of the file with authorities.
    private var authority: PEM?
    private let ownEndpoints: () -> [Endpoint]
    private let resolve: Resolve
    private let log: Log

    private static let authorityLimit = 4 << 20
    private static let answerLimit = 64 << 10

    init(
        _ rules: Rules, loop: EventLoop, log: Log, ownEndpoints: @escaping () -> [Endpoint], resolve: @escaping Resolve
    ) {
        self.rules = rules
        self.loop = loop
        self.log = log
        self.ownEndpoints = ownEndpoints
        self.resolve = resolve
        authority = rules.authorityFile.map { (try? Self.content(of: $0)) ?? .file($0) }
        var limits = HTTPSession.Limits()
        limits.source = rules.source
        http = HTTPSession(on: loop, limits: limits, over: [HTTP1Transport.self])
    }

    /// Reads the file with certificate authorities again. If the file cannot be used, the earlier authorities stay in
    /// use.
    func readAuthority() {
        guard let file = rules.authorityFile else { return }
        do {
            authority = try Self.content(of: file)
        } catch {
            log.error(
                "the certificate was not reloaded, so the old certificate stays in use",
                [.setting: .text(rules.authoritySetting), .reason: .text("\(error)")])
        }
    }

    private static func content(of file: String) throws -> PEM {
        _ = try TLSContext.client(authority: .file(file))
        let bytes = PEM.bytes(try SettingsFile.bytes(at: file, limit: authorityLimit))
        _ = try TLSContext.client(authority: bytes)
        return bytes
    }

    func close() { http.close() }

    /// Posts a body. The function `done` is called once, on the loop.
    func post(
        _ body: [UInt8], _ headers: [HTTPField], to text: String, _ done: @escaping @Sendable (Outcome) -> Void
    ) {
        guard let url = CallbackURL(text), url.isSecure || rules.destinations.allowsPlain else {
            return done(.failed("the callback URL has a form that is not accepted"))
        }
        if let address = IPAddress(url.host) { return post(body, headers, to: url, at: [address], done) }
        resolve(url.host) { [weak self] addresses in
            if let self { post(body, headers, to: url, at: addresses, done) } else { done(.failed("cancelled")) }
        }
    }

    private func post(
        _ body: [UInt8], _ headers: [HTTPField], to url: CallbackURL, at addresses: [IPAddress],
        _ done: @escaping @Sendable (Outcome) -> Void
    ) {
        guard let address = rules.destinations.address(among: addresses, port: url.port, own: ownEndpoints()) else {
            return done(
                .failed(
                    addresses.isEmpty ? "the callback's host has no address" : "the callback's address is not allowed"))
        }
        var request = HTTPClientRequest(method: "POST", url: url.text, body: body)
        request.headers = headers
        request.route.version = .http1
        request.timeout = rules.timeout
        request.responseLimit = Self.answerLimit
        request.route.address = address
        request.route.authority = authority
        http.send(request) { result in
            switch result {
            case .success(let response): done(.answered(response))
            case .failure(let error): done(.failed("\(error.code)"))
            }
        }
    }
}

extension DNSResolver {
    /// Looks up all addresses of the webhook's host.
    func addresses(of host: String, _ done: @escaping @Sendable ([IPAddress]) -> Void) {
        // A DNS query with a port asks only for addresses, and not for NAPTR and SRV records.
        resolve(ServerQuery(host: host, port: 443, transport: .tls)) { outcome in
            done(((try? outcome.get()) ?? []).map(\.endpoint.address))
        }
    }
}
