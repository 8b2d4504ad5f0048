import Crypto
import HTTPClient
import PushDelivery
import Settings
import Timekeeping

/// The connections to all servers that pushes go to.
struct ProviderConnections {
    private let directory: PushDirectory
    /// The connection of each app, by the app's place in the directory.
    private let own: [ProviderConnection]
    /// The connections to servers that tokens name, by the servers' numbers, which are used again.
    private var others: [Int: (app: PushApp.ID, connection: ProviderConnection)] = [:]

    init(_ directory: PushDirectory) {
        self.directory = directory
        own = directory.apps.map { ProviderConnection(to: $0, group: $0.name) }
    }

    /// The request as it leaves.
    mutating func request(
        for push: PushDispatcher.Transmission, now: Moment
    ) throws(CryptoError) -> HTTPClientRequest {
        guard let number = push.server else { return try own[push.app.index].request(for: push, now: now) }
        if let known = others[number], known.app == push.app {
            return try known.connection.request(for: push, now: now)
        }
        let app = directory.apps[push.app.index]
        let connection = ProviderConnection(to: app, group: "\(app.name) \(number)")
        others[number] = (push.app, connection)
        return try connection.request(for: push, now: now)
    }

    /// A request that goes the way of all the app's requests, so that there is a connection before the first push.
    func warmUp(_ url: String, of app: PushApp) -> HTTPClientRequest { own[app.id.index].request(to: url) }
}

/// What is the same for all requests to one server: how it is reached, and what shows it who we are.
struct ProviderConnection {
    private let group: String
    private let authorityFile: String?
    private var certificateFile: String?
    private var keyFile: String?
    /// The secrets that sign requests: the new one, and the one that it replaces.
    private let secrets: [[UInt8]]

    /// Connections are shared within a group, so that one app's never wait for another's; Apple takes one team only on
    /// each.
    init(to app: PushApp, group: String) {
        self.group = group
        var secrets: [Secret?] = []
        switch app.service {
        case .apns(let settings):
            authorityFile = settings.caFile
            certificateFile = settings.certFile
            keyFile = settings.certKeyFile
        case .fcm(let settings): authorityFile = settings.caFile
        case .webPush(let settings): authorityFile = settings.caFile
        case .acrobits(let settings): authorityFile = settings.caFile
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
        for transmission: PushDispatcher.Transmission, now: Moment
    ) throws(CryptoError) -> HTTPClientRequest {
        let push = transmission.request
        let timeout = transmission.end - now.instant
        var headers: [HTTPHeader] = []
        headers.reserveCapacity(push.headers.count + 1)
        for header in push.headers { headers.append(HTTPHeader(header.name, header.value)) }
        if let credential = transmission.credential { headers.append(HTTPHeader("authorization", credential)) }
        var request = request(to: push.url)
        request.method = push.method
        request.headers = headers
        request.body = push.body
        request.protect(push.protection)
        if !secrets.isEmpty { try request.sign(with: secrets, at: now.date) }
        request.timeout = timeout
        request.connectTimeout = timeout
        request.responseLimit = 64 << 10
        return request
    }

    /// What all requests share, to tell which connections they can use.
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
    static func server(of url: String) -> String { RequestTarget(url)?.server ?? "the server" }
}
