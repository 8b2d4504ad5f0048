import Crypto
import HTTPClient
import PushDelivery
import Settings
import Timekeeping

/// How requests reach one app's provider: what of a request is the same for all pushes.
struct ProviderRoute {
    private let group: String
    private let authorityFile: String?
    private let certificateFile: String?
    private let keyFile: String?
    /// Of signatures: the new one and the one that it replaces.
    private let secrets: [[UInt8]]

    /// - Parameters:
    ///   - app: the app.
    ///   - group: the name of a connection group; the app's own when `nil`.
    init(to app: PushApp, group: String? = nil) {
        // Connections are shared within a group, so that one app's never wait for another's; Apple takes one team only
        // on each.
        self.group = group ?? app.name
        var secrets: [Secret?] = []
        switch app.service {
        case .apns(let settings):
            authorityFile = settings.caFile
            certificateFile = settings.certFile
            keyFile = settings.certKeyFile
        case .fcm(let settings):
            authorityFile = settings.caFile
            certificateFile = nil
            keyFile = nil
        case .webPush(let settings):
            authorityFile = settings.caFile
            certificateFile = nil
            keyFile = nil
        case .acrobits(let settings):
            authorityFile = settings.caFile
            certificateFile = nil
            keyFile = nil
        case .http(let settings):
            authorityFile = settings.caFile
            certificateFile = settings.certFile
            keyFile = settings.certKeyFile
            secrets = [settings.secret, settings.previousSecret]
        }
        self.secrets = secrets.compactMap { $0.map { Array($0.reveal().utf8) } }
    }

    /// The request as it leaves: encrypted and signed where that is wanted.
    func request(
        _ push: ProviderRequest, credential: HTTPHeader?, timeout: Duration, date: UnixTime
    ) throws(CryptoError) -> HTTPClientRequest {
        var headers: [HTTPHeader] = []
        headers.reserveCapacity(push.headers.count + 1)
        for header in push.headers { headers.append(HTTPHeader(header.name, header.value)) }
        if let credential { headers.append(credential) }
        var request = request(to: push.url)
        request.method = push.method
        request.headers = headers
        request.body = push.body
        request.protect(push.protection)
        if !secrets.isEmpty { try request.sign(with: secrets, at: date) }
        request.timeout = timeout
        request.connectTimeout = timeout
        request.responseLimit = 64 << 10
        return request
    }

    /// What all requests of the app share, to tell which connections they can use.
    func request(to url: String) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: url)
        request.authorityFile = authorityFile
        request.certificateFile = certificateFile
        request.keyFile = keyFile
        request.group = group
        return request
    }
}

extension ProviderAnswer {
    init(_ response: HTTPClientResponse) {
        let isAccepted = (200...299).contains(response.status)
        self.init(
            status: response.status, id: response.header("apns-id"),
            retryAfter: isAccepted ? nil : response.header("retry-after"), body: response.body)
    }

    /// Whether the provider itself is in trouble, not just this push.
    var isFailureOfProvider: Bool { status >= 500 }
}

extension HTTPClientError {
    /// What a request that got no answer means for its push; `words` for the operator.
    func pushOutcome(_ words: String) -> PushOutcome {
        switch code {
        case .resolve, .connect, .timeout, .reset, .cancelled, .failed, .badResponse, .bodyTooLarge: .retry(after: nil)
        case .tls, .invalidRequest: .noConnection(words)
        }
    }

    /// For operators: which server, and what happened.
    func sentence(about url: String) -> String { "\(Self.server(of: url)): \(sentence)" }

    /// Host and port; never the path, which may hold a token.
    static func server(of url: String) -> String {
        let parts = url.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[1].isEmpty else { return "the server" }
        let authority = parts[2].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let host = authority.split(separator: "@").last ?? authority
        let hasPort =
            host.last != "]" && host.drop { $0 != "]" }.contains(":") || !host.contains("]") && host.contains(":")
        return hasPort ? "\(host)" : "\(host):\(url.hasPrefix("https:") ? 443 : 80)"
    }
}
