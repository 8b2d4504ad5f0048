import Bytes
import Crypto

/// The opening handshake of RFC 6455 section 4, server side: the client's request and the answer to it.
package struct WebSocketHandshake: Hashable, Sendable {
    /// `Sec-WebSocket-Accept` for the client's key.
    package let accept: String
    /// The subprotocol that both sides use.
    package let subprotocol: String

    /// Why a request is refused.
    package enum Refusal: Error, Hashable, Sendable {
        /// It does not ask for a WebSocket: 426.
        case notAsked
        /// Another version than 13: 426, with the supported version.
        case version
        /// The key is missing, repeated or not 16 bytes long, or the method is not GET: 400.
        case malformed
        /// It does not offer the subprotocol: 400.
        case subprotocol
        /// Its page is from an origin that is not listed: 403.
        case origin
    }

    /// The relevant fields of the request.
    package struct Request: Sendable {
        package var isGet = false
        /// The values of each field in their original order. `Origin` is in lower case.
        package var upgrade: [String] = []
        package var connection: [String] = []
        package var version: [String] = []
        package var key: [String] = []
        package var subprotocols: [String] = []
        package var origin: [String] = []

        package init() {}
    }

    /// - Parameters:
    ///   - request: the client's request.
    ///   - subprotocol: the subprotocol that it must offer (RFC 7118: `sip`).
    ///   - origins: the allowed origins of its page, in lower case; empty for all.
    /// - Throws: the reason for refusing the handshake.
    package init(_ request: Request, subprotocol: String, origins: Set<String>) throws(Refusal) {
        guard Self.list(request.upgrade).contains("websocket"), Self.list(request.connection).contains("upgrade") else {
            throw .notAsked
        }
        guard request.version == ["13"] else { throw .version }
        guard request.isGet, request.key.count == 1, let key = request.key.first,
            Base64.standard.decode(Array(key.utf8).span)?.count == 16
        else { throw .malformed }
        // Clients other than browsers have no origin. No access right depends on the page.
        guard origins.isEmpty || request.origin.isEmpty || origins.isSuperset(of: request.origin) else { throw .origin }
        guard Self.list(request.subprotocols).contains(subprotocol) else { throw .subprotocol }
        self.subprotocol = subprotocol
        let digest = SHA1.digest(of: Array((key + Self.magic).utf8))
        accept = String(decoding: Base64.standard.encode(digest), as: UTF8.self)
    }

    private static let magic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

    private static func list(_ values: [String]) -> [String] {
        values.flatMap { $0.split(separator: ",") }.map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
    }
}
