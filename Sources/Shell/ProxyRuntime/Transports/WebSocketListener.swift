package import Addressing
package import Crypto
package import HTTPServer
package import Reactor
package import Settings
import WebSocket

/// WebSockets, over which browsers speak SIP (RFC 7118).
package struct WebSocketSettings: SettingsGroup, Hashable {
    package var origins: [String] = []
    package var pingInterval: Duration = .seconds(30)
    package var apiPath: String?

    package init() {}

    package static let schema: [Setting<WebSocketSettings>] = [
        .list(
            "origins", \.origins, example: "[https://phone.example.net]",
            "The origins of the pages that may connect; empty: all. Clients that are no browsers have none, and may."),
        .duration(
            "ping-interval", in: .seconds(5) ... .seconds(3600), \.pingInterval,
            "How often a browser is asked whether it is there. One that does not answer until the next time has gone."),
        .string(
            "api-path", \.apiPath, example: "/sip",
            "A path of the HTTP API (api.listen) under which WebSockets are accepted as well, so that a page, its API and its calls have one address."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard let apiPath else { return [] }
        let isPlain =
            apiPath.hasPrefix("/")
            && apiPath.dropFirst().split(separator: "/", omittingEmptySubsequences: false).allSatisfy { part in
                !part.isEmpty && part.utf8.allSatisfy { $0 == 45 || $0 == 95 || 48...57 ~= $0 || 65...90 ~= $0 & 0xdf }
            }
        return isPlain
            ? [] : [SettingComplaint("expected a path of letters, digits, - and _, such as /sip", key: "api-path")]
    }
}

/// What becomes of a request for a WebSocket: a flow, or an answer that says what is wrong with it.
package struct WebSocketUpgrade: Sendable {
    private let origins: Set<String>
    private let opened: @Sendable (StreamConnection, [UInt8]) -> Void

    /// - Parameters:
    ///   - origins: whose pages may connect; empty for all.
    ///   - opened: gets each connection whose handshake is done, with what came after it.
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

/// Accepts WebSockets at one address: HTTP up to the handshake, a flow from then on.
///
/// - `@unchecked Sendable` because it is used on its loop alone.
package final class WebSocketListener: @unchecked Sendable {
    package let local: Endpoint
    private let listener: HTTPListener
    private let isSecure: Bool

    /// - Parameters:
    ///   - endpoint: where to listen.
    ///   - loop: the shard's loop.
    ///   - tls: for `wss`.
    ///   - upgrade: what becomes of its requests.
    ///   - limits: those of the flows.
    ///   - balancers: whose connections begin with a PROXY header.
    ///   - unannounced: told of those of their connections that do not.
    /// - Throws: when the address cannot be bound.
    package init(
        boundTo endpoint: Endpoint, on loop: EventLoop, tls: TLSContext?, upgrade: WebSocketUpgrade, limits: FlowLimits,
        balancers: [AddressBlock] = [], unannounced: @escaping (StreamConnection) -> Void = { _ in }
    ) throws(SystemError) {
        var http = HTTPListener.Limits()
        http.body = 0
        http.turn = .connections
        http.headTimeout = limits.firstRequest
        http.connections = limits.connections
        http.connectionsPerSource = limits.perSource
        isSecure = tls != nil
        listener = try HTTPListener(on: loop, limits: http) { request, reply in upgrade.answer(request, reply) }
        local = try listener.listen(on: endpoint, tls: tls, balancers: balancers, unannounced: unannounced)
    }

    /// Takes a renewed certificate for the connections from now on.
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
            var response = HTTPResponse(status: 426, text: "SIP is spoken here over WebSocket, version 13")
            response.fields += [
                HTTPField("Upgrade", "websocket"), HTTPField("Connection", "Upgrade"),
                HTTPField("Sec-WebSocket-Version", "13"),
            ]
            return response
        case .malformed: return HTTPResponse(status: 400, text: "no WebSocket handshake")
        case .subprotocol: return HTTPResponse(status: 400, text: "Sec-WebSocket-Protocol: sip is needed")
        case .origin: return HTTPResponse(status: 403, text: "this page may not connect: websocket.origins")
        }
    }
}
