import HTTP1Connections
import HTTPClient
import HTTPServices
import JSON
import ProxyDaemon
import Reactor

/// A command's connection to the control socket of the daemon.
struct ControlConnection {
    private let path: String

    init(_ invocation: Command.Invocation) throws(Command.Failure) { path = try invocation.settings().control }

    init(path: String) { self.path = path }

    func get<Value: Decodable>(_ resource: String) async throws(Command.Failure) -> Value {
        try decode(exchange("GET", resource, body: []))
    }

    /// Reads all pages of a list, whose path `resource` may have a query. The closure `entries` returns the entries of a
    /// page, and `next` returns the value of the query parameter `after` for the next page.
    func list<Page: Decodable, Entry, Next>(
        _ resource: String, _ entries: (Page) -> [Entry], next: (Page) -> Next?
    ) async throws(Command.Failure) -> [Entry] {
        var found: [Entry] = []
        var query = resource + (resource.contains("?") ? "&" : "?") + "limit=1000"
        let first = query
        while true {
            let page: Page = try await get(query)
            found += entries(page)
            guard let place = next(page) else { return found }
            query = "\(first)&after=\(pathSegment("\(place)"))"
        }
    }

    private func decode<Value: Decodable>(_ body: [UInt8]) throws(Command.Failure) -> Value {
        do {
            return try Self.json(body).decoded()
        } catch {
            throw .failed("the daemon's answer is malformed: \(error)")
        }
    }

    /// Parses the daemon's answer to a command. Only the answer's length is limited, and not its number of JSON values,
    /// because lists can be long.
    private static func json(_ body: [UInt8]) throws(JSONError) -> JSONValue {
        var limits = JSONReader.Limits()
        limits.values = limits.bytes
        return try JSONValue(body, limits: limits)
    }

    func post(_ resource: String) async throws(Command.Failure) { _ = try exchange("POST", resource, body: []) }

    /// Sends an operator's order without a body to the daemon. An operator's order has a longer timeout than other
    /// requests, because the daemon can need much time to execute the order.
    func post<Value: Decodable>(
        _ resource: String, timeout: Duration
    ) async throws(Command.Failure) -> Value {
        try decode(exchange("POST", resource, body: [], timeout: timeout))
    }

    /// Sends an operator's order with a body to the daemon. An operator's order has a longer timeout than other
    /// requests, because the daemon can need much time to execute the order.
    func post<Value: Decodable>(
        _ resource: String, _ value: some Encodable, timeout: Duration
    ) async throws(Command.Failure) -> Value {
        guard let json = try? JSONValue(of: value) else { throw .failed("the request cannot be written") }
        return try decode(exchange("POST", resource, body: json.bytes, timeout: timeout))
    }

    func put(_ resource: String, _ value: some Encodable) async throws(Command.Failure) {
        try await send("PUT", resource, value)
    }

    func send(_ method: String, _ resource: String, _ value: some Encodable) async throws(Command.Failure) {
        guard let json = try? JSONValue(of: value) else { throw .failed("the request cannot be written") }
        _ = try exchange(method, resource, body: json.bytes)
    }

    func delete(_ resource: String) async throws(Command.Failure) { _ = try exchange("DELETE", resource, body: []) }

    func delete<Value: Decodable>(_ resource: String) async throws(Command.Failure) -> Value {
        try decode(exchange("DELETE", resource, body: []))
    }

    func text(_ resource: String) async throws(Command.Failure) -> String {
        String(decoding: try exchange("GET", resource, body: []), as: UTF8.self)
    }

    private func exchange(
        _ method: String, _ resource: String, body: [UInt8], timeout: Duration? = nil
    ) throws(Command.Failure) -> [UInt8] {
        var request = request(method, resource, body: body)
        if let timeout { request.timeout = timeout }
        let response: HTTPClientResponse
        do {
            response = try HTTPSession.wait(for: request)
        } catch {
            throw noAnswer(error)
        }
        guard response.status == 200 else {
            let problem: ServiceProblem? = try? Self.json(response.body).decoded()
            let sentence = problem.map { $0.title + ($0.detail.map { ": \($0)" } ?? "") }
            throw .failed(sentence ?? "the daemon answered with status \(response.status)")
        }
        return response.body
    }

    /// Creates the failure of a request without an answer. The system is asked for the reason, because the HTTP client
    /// does not report why it could not connect.
    private func noAnswer(_ error: HTTPClientError) -> Command.Failure {
        do throws(SystemError) {
            guard try UnixSocket.isListening(at: path) else {
                return .failed("no daemon answers on \(path): is it running?")
            }
            return .failed("the daemon on the control socket \(path) does not answer: \(error.sentence)")
        } catch {
            return .failed(Self.cannotUse(path, error))
        }
    }

    private static func cannotUse(_ path: String, _ error: SystemError) -> String {
        let hint = error.isPermissionDenied ? "; only the daemon's own user and root may use it" : ""
        return "the control socket \(path) cannot be used: \(error.reason)\(hint)"
    }

    /// Whether a daemon listens on the control socket.
    ///
    /// - Throws: an error if a daemon listens but does not answer, because no command may change the store while a
    ///   daemon runs.
    var isAlive: Bool {
        get throws(Command.Failure) {
            do throws(SystemError) {
                guard try UnixSocket.isListening(at: path) else { return false }
            } catch {
                throw .failed(Self.cannotUse(path, error))
            }
            do throws(HTTPClientError) {
                _ = try HTTPSession.wait(for: request("GET", "/healthz"))
            } catch {
                throw .failed("the daemon on \(path) does not answer: \(error.sentence)")
            }
            return true
        }
    }

    private func request(_ method: String, _ resource: String, body: [UInt8] = []) -> HTTPClientRequest {
        var request = HTTPClientRequest(method: method, url: "http://localhost\(resource)", body: body)
        request.route.unixSocketPath = path
        request.route.version = .http1
        return request
    }
}
