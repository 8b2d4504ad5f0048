import Crypto
import HTTPClient
import HTTPSemantics
import PushDelivery
import Settings
import Timekeeping

/// The connections to all servers that get pushes.
struct ProviderConnections {
    private let directory: PushDirectory
    /// The connection of each app, by the app's place in the directory.
    private var own: [ProviderConnection]
    /// The connections to servers that tokens name, by the servers' numbers, which are reused.
    private var others: [Int: (app: PushApp.ID, connection: ProviderConnection)] = [:]

    init(_ directory: PushDirectory) {
        self.directory = directory
        own = directory.apps.map { ProviderConnection(to: $0, group: $0.name) }
    }

    /// The request in its final form.
    mutating func request(
        for push: PushDispatcher.Transmission, now: Moment
    ) throws(CryptoError) -> HTTPClientRequest {
        guard let number = push.server else { return try own[push.app.index].request(for: push, now: now) }
        if others[number]?.app != push.app {
            let app = directory.apps[push.app.index]
            others[number] = (push.app, ProviderConnection(to: app, group: "\(app.name) \(number)"))
        }
        guard let request = try others[number]?.connection.request(for: push, now: now) else {
            preconditionFailure("the connection was made above")
        }
        return request
    }

    /// A request with the same route as all requests of the app, which opens a connection before the first push.
    func warmUp(_ url: String, of app: PushApp) -> HTTPClientRequest { own[app.id.index].request(to: url) }
}

/// The parts that all requests to one server share: its route, and the daemon's credentials.
struct ProviderConnection {
    /// The shared parts, made once.
    private let model: HTTPClientRequest
    /// The secrets that sign requests: the new one, and the one that it replaces.
    private let secrets: [[UInt8]]
    /// The header fields of the last request. The next request often has the same ones.
    private var last: (own: [ProviderRequest.Header], credential: String?, headers: [HTTPField]) = ([], nil, [])

    /// Connections are shared within a group, so that one app never waits for another; Apple allows only one team on
    /// each connection.
    init(to app: PushApp, group: String) {
        var route = HTTPRoute()
        route.group = group
        let settings = app.rules.connection
        route.authorityFile = settings.authorityFile
        route.certificateFile = settings.certificateFile
        route.keyFile = settings.keyFile
        secrets = settings.secrets.map { Array($0.reveal().utf8) }
        var model = HTTPClientRequest(url: "")
        model.route = route
        model.responseLimit = 64 << 10
        self.model = model
    }

    /// The request in its final form: encrypted and signed if required.
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

    /// A request with the route of all others.
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
    /// The outcome of a push whose request got no answer; `words` is for the operator.
    func pushOutcome(_ words: String) -> PushOutcome {
        switch code {
        case .resolve, .connect, .timeout, .reset, .cancelled, .failed, .badResponse, .bodyTooLarge: .retry(after: nil)
        case .tls, .invalidRequest: .noConnection(words)
        }
    }

    /// For operators: the server and the failure.
    func sentence(about url: String) -> String { "\(Self.server(of: url)): \(sentence)" }

    /// Host and port. Never the path, which can contain a token.
    static func server(of url: String) -> String { RequestTarget(url)?.server ?? "the server" }
}
