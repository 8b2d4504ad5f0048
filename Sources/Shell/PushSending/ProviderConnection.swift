import Crypto
import HTTPClient
import HTTPSemantics
import PushDelivery
import Settings
import Timekeeping

/// The connections to all servers that get pushes.
struct ProviderConnections {
    private let directory: PushDirectory
    private let means: [AppConnection]
    /// The connection of each app, with the app's index in the list of apps as the index.
    private var own: [ProviderConnection]
    /// The connections to servers that tokens name, by the numbers of the servers. The number of a server that is no
    /// longer used is given to another server.
    private var others: [Int: (app: PushApp.ID, connection: ProviderConnection)] = [:]

    /// Creates the provider connections of all push apps. The array `means` has the parameters of each app, in the
    /// order of the list of apps.
    init(_ directory: PushDirectory, _ means: [AppConnection]) {
        self.directory = directory
        self.means = means
        own = zip(directory.apps, means).map { ProviderConnection($1, group: $0.name) }
    }

    /// Returns the HTTP request for a push, with all header fields.
    mutating func request(
        for push: PushDispatcher.Transmission, now: Moment
    ) throws(CryptoError) -> HTTPClientRequest {
        guard let number = push.server else { return try own[push.app.index].request(for: push, now: now) }
        if others[number]?.app != push.app {
            let app = directory.apps[push.app.index]
            others[number] = (
                push.app, ProviderConnection(means[push.app.index], group: "\(app.name) \(number)")
            )
        }
        guard let request = try others[number]?.connection.request(for: push, now: now) else {
            preconditionFailure("the connection was made above")
        }
        return request
    }

    /// Returns a request that opens a connection before the first push, with the route of all requests of the app.
    func warmUp(_ url: String, of app: PushApp) -> HTTPClientRequest { own[app.id.index].request(to: url) }
}

/// The common parts of all requests to one push server: the route, and the secrets that sign requests.
struct ProviderConnection {
    /// The request whose parts all pushes share, made once and copied for each push.
    private let model: HTTPClientRequest
    /// The secrets that sign requests: the current secret, and during a change of secrets also the old secret.
    private let secrets: [[UInt8]]
    /// The header fields of the last request; the next request often has the same fields.
    private var last: (own: [ProviderRequest.Header], credential: String?, headers: [HTTPField]) = ([], nil, [])

    /// Prepares requests to an app's provider. Apps share connections only within one group, because Apple requires one
    /// team for each connection.
    init(_ means: AppConnection, group: String) {
        secrets = means.secrets
        var model = HTTPClientRequest(url: "")
        model.route = means.route(group: group)
        model.responseLimit = 64 << 10
        self.model = model
    }

    /// Returns the HTTP request for a push, encrypted and signed if the provider requires it.
    mutating func request(
        for transmission: PushDispatcher.Transmission, now: Moment
    ) throws(CryptoError) -> HTTPClientRequest {
        let push = transmission.request
        var request = model
        request.method = push.method
        request.url = push.url
        request.headers = headers(push.headers, transmission.credential)
        request.body = push.body
        request.protect(push.protection)
        if !secrets.isEmpty { try request.sign(with: secrets, at: now.date) }
        request.timeout = transmission.end - now.instant
        request.connectTimeout = request.timeout
        return request
    }

    private mutating func headers(_ own: [ProviderRequest.Header], _ credential: String?) -> [HTTPField] {
        if own == last.own, credential == last.credential { return last.headers }
        var headers: [HTTPField] = []
        headers.reserveCapacity(own.count + 1)
        for header in own { headers.append(HTTPField(header.name, header.value)) }
        if let credential { headers.append(HTTPField("authorization", credential)) }
        last = (own, credential, headers)
        return headers
    }

    /// Returns a request with the route that all requests of the app have.
    func request(to url: String) -> HTTPClientRequest {
        var request = model
        request.url = url
        return request
    }
}

extension ProviderAnswer {
    init(_ response: HTTPClientResponse) {
        let isAccepted = (200...299).contains(response.status)
        self.init(
            status: response.status, id: response.header("apns-id"),
            retryAfter: isAccepted ? nil : response.header("retry-after"),
            date: isAccepted ? nil : response.header("date"), body: response.body)
    }
}

extension HTTPClientError {
    /// The outcome of a push whose request got no answer. The text `words` describes the failure for the operator.
    func pushOutcome(_ words: String) -> PushOutcome {
        switch code {
        case .resolve, .connect, .timeout, .reset, .cancelled, .failed, .badResponse, .bodyTooLarge, .proxy:
            .retry(after: nil)
        case .tls, .invalidRequest, .proxyRefused: .noConnection(words)
        }
    }

    /// Returns a sentence for operators about the server and the failure.
    func sentence(about url: String) -> String { "\(Self.server(of: url)): \(sentence)" }

    /// Returns the host and port of a URL, without the path, because the path can contain a token.
    static func server(of url: String) -> String { RequestTarget(url)?.server ?? "the server" }
}
