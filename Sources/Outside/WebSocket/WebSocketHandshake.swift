import Bytes
import Crypto

/// The opening handshake of RFC 6455 section 4, server side: what a request says, and what it is answered.
package struct WebSocketHandshake: Hashable, Sendable {
    /// `Sec-WebSocket-Accept` for the client's key.
    package let accept: String
    /// The subprotocol both sides speak.
    package let subprotocol: String

    /// Why a request does not become a WebSocket.
    package enum Refusal: Error, Hashable, Sendable {
        /// It asks for none: 426.
        case notAsked
        /// Another version than 13: 426, with the version that is spoken here.
        case version
        /// A key that is missing, repeated or not of 16 bytes, or a request that is no GET: 400.
        case malformed
        /// It does not offer the subprotocol: 400.
        case subprotocol
        /// Its page is from an origin that is not listed: 403.
        case origin
    }

    /// The fields of the request that count.
    package struct Request: Sendable {
        package var isGet = false
        /// The values of each field, in the order in which they came; that of `Origin` in lower case.
        package var upgrade: [String] = []
        package var connection: [String] = []
        package var version: [String] = []
        package var key: [String] = []
        package var subprotocols: [String] = []
        package var origin: [String] = []

        package init() {}
    }

    /// - Parameters:
    ///   - request: what the client sent.
    ///   - subprotocol: what it must offer (RFC 7118: `sip`).
    ///   - origins: from where its page may be, in lower case; from anywhere when there are none.
    /// - Throws: why there is no handshake.
    package init(_ request: Request, subprotocol: String, origins: Set<String>) throws(Refusal) {
        guard Self.list(request.upgrade).contains("websocket"), Self.list(request.connection).contains("upgrade") else {
            throw .notAsked
        }
        guard request.version == ["13"] else { throw .version }
        guard request.isGet, request.key.count == 1, let key = request.key.first,
            Base64.standard.decode(Array(key.utf8).span)?.count == 16
        else { throw .malformed }
        // A client that is no browser has no origin; nothing here rests on who the page is.
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
