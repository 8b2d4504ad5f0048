package import Addressing
import Bytes
package import Crypto
import HTTPSemantics
package import HTTPServer
package import Reactor
package import Settings
import WebSocket

/// The settings under `websocket`, for browsers that use SIP over WebSocket (RFC 7118).
package struct WebSocketSettings: SettingsGroup, Hashable {
    package var origins: [String] = []
    package var pingInterval: Duration = .seconds(30)
    package var apiPath: String?

    package init() {}

    package static let schema: [Setting<WebSocketSettings>] = [
        .list(
            "origins", \.origins, example: "[https://phone.example.net]",
            "The origins of the web pages that may open a WebSocket. With an empty list, pages of every origin may open a WebSocket. Clients other than browsers send no origin and may always connect."
        ),
        .duration(
            "ping-interval", in: .seconds(5) ... .seconds(3600), \.pingInterval,
            "How often the daemon pings a browser. If the browser does not answer before the next ping, the daemon closes the connection."
        ),
        .string(
            "api-path", \.apiPath, example: "/sip",
            "A path of the HTTP API (`api.listen`) at which browsers can also open SIP over WebSocket, so that a web page, its API and its calls share one address."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard let apiPath else { return [] }
        let isPlain =
            apiPath.hasPrefix("/")
            && apiPath.dropFirst().split(separator: "/", omittingEmptySubsequences: false).allSatisfy { part in
                !part.isEmpty && part.utf8.allSatisfy(\.isNameByte)
            }
        return isPlain
            ? [] : [SettingComplaint("expected a path of letters, digits, - and _, such as /sip", key: "api-path")]
    }
}

/// Answers a request to open a WebSocket with a new flow or an error.
package struct WebSocketUpgrade: Sendable {
    private let origins: Set<String>
    private let opened: @Sendable (StreamConnection, [UInt8]) -> Void

    /// Creates a handler of requests to open a WebSocket.
    ///
    /// - Parameters:
    ///   - origins: the origins of web pages that may connect; if empty, all pages may connect.
    ///   - opened: receives each connection after its handshake, with the input that followed the handshake.
    package init(origins: [String], opened: @escaping @Sendable (StreamConnection, [UInt8]) -> Void) {
        self.origins = Set(origins.map { $0.lowercased() })
        self.opened = opened
    }

    package func answer(_ request: HTTPRequest, _ reply: HTTPReply) {
        do throws(WebSocketHandshake.Refusal) {
            let handshake = try WebSocketHandshake(
                WebSocketHandshake.Request(request), subprotocol: "sip", origins: origins)
            reply.upgrade(handshake.fields, opened)
        } catch {
            reply.send(error.response)
        }
    }
}

/// Accepts WebSockets at one address. A connection uses HTTP until its WebSocket handshake, and becomes a flow
/// afterwards.
///
/// - The class is `@unchecked Sendable`, because only its loop uses it.
package final class WebSocketListener: @unchecked Sendable {
    package let local: Endpoint
    private let listener: HTTPListener
    private let isSecure: Bool

    /// Creates the listener, and binds its address.
    ///
    /// - Parameters:
    ///   - endpoint: the address to listen on.
    ///   - loop: the loop of the shard.
    ///   - tls: the context for `wss`; `nil` for `ws`.
    ///   - upgrade: answers the requests to open a WebSocket.
    ///   - limits: the limits of the flows.
    ///   - balancers: the load balancers, each of whose connections begins with a PROXY header.
    ///   - unannounced: the closure that is called for each connection of a load balancer that does not begin with a
    ///     PROXY header.
    /// - Throws: an error if the address cannot be bound.
    package init(
        boundTo endpoint: Endpoint, on loop: EventLoop, tls: TLSContext?, upgrade: WebSocketUpgrade, limits: FlowLimits,
        balancers: [AddressBlock] = [], unannounced: @escaping (StreamConnection) -> Void = { _ in }
    ) throws(SystemError) {
        isSecure = tls != nil
        listener = try HTTPListener(on: loop, limits: Self.handshakes(limits)) { request, reply in
            upgrade.answer(request, reply)
        }
        local = try listener.listen(on: endpoint, tls: tls, balancers: balancers, unannounced: unannounced)
    }

    /// Applies changed limits to the connections that the listener accepts from now on.
    package func limitsChanged(_ limits: FlowLimits) { listener.limits = Self.handshakes(limits) }

    /// Returns the limits of connections before their WebSocket handshake.
    private static func handshakes(_ limits: FlowLimits) -> HTTPListener.Limits {
        var http = HTTPListener.Limits()
        http.body = 0
        http.turn = .connections
        http.headTimeout = limits.firstRequest
        http.outputTimeout = limits.output
        http.connections = limits.connections
        http.connectionsPerSource = limits.perSource
        return http
    }

    /// Sets the renewed certificate that new connections use.
    package func replaceTLS(_ tls: TLSContext) { if isSecure { listener.replaceTLS(tls) } }
}

extension WebSocketHandshake.Request {
    fileprivate init(_ request: HTTPRequest) {
        self.init()
        isGet = request.method == "GET"
        for field in request.fields {
            switch field.name.lowercased() {
            case "upgrade": upgrade.append(field.value)
            case "connection": connection.append(field.value)
            case "sec-websocket-version": version.append(field.value)
            case "sec-websocket-key": key.append(field.value)
            case "sec-websocket-protocol": subprotocols.append(field.value)
            case "origin": origin.append(field.value.lowercased())
            default: break
            }
        }
    }
}

extension WebSocketHandshake {
    fileprivate var fields: [HTTPField] {
        [
            HTTPField("Upgrade", "websocket"), HTTPField("Connection", "Upgrade"),
            HTTPField("Sec-WebSocket-Accept", accept), HTTPField("Sec-WebSocket-Protocol", subprotocol),
        ]
    }
}

extension WebSocketHandshake.Refusal {
    fileprivate var response: HTTPResponse {
        switch self {
        case .notAsked, .version:
            var response = HTTPResponse(status: 426, text: "this address accepts only SIP over WebSocket, version 13")
            response.fields += [
                HTTPField("Upgrade", "websocket"), HTTPField("Connection", "Upgrade"),
                HTTPField("Sec-WebSocket-Version", "13"),
            ]
            return response
        case .malformed: return HTTPResponse(status: 400, text: "the WebSocket handshake is malformed")
        case .subprotocol: return HTTPResponse(status: 400, text: "the request lacks Sec-WebSocket-Protocol: sip")
        case .origin:
            return HTTPResponse(
                status: 403, text: "this page may not connect: its origin is not listed under websocket.origins")
        }
    }
}
