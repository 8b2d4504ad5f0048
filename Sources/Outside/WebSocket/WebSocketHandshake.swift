import Bytes
import Crypto

/// The server's side of the opening handshake (RFC 6455 section 4): checks the client's request and computes the
/// answer.
package struct WebSocketHandshake: Hashable, Sendable {
    /// The value of `Sec-WebSocket-Accept`, computed from the client's key.
    package let accept: String
    /// The agreed subprotocol, such as `sip`.
    package let subprotocol: String

    /// Why a request for a WebSocket is refused, and with which status.
    package enum Refusal: Error, Hashable, Sendable {
        /// The request does not ask for a WebSocket: it gets 426 (Upgrade Required).
        case notAsked
        /// The request names another WebSocket version than 13. It gets 426 with the supported version.
        case version
        /// `Sec-WebSocket-Key` is missing, repeated or not 16 bytes long, or the method is not GET. The request gets
        /// 400.
        case malformed
        /// The request does not offer the required subprotocol. It gets 400.
        case subprotocol
        /// The request comes from a web page whose origin is not allowed. It gets 403.
        case origin
    }

    /// The header fields of the client's request that the handshake uses.
    package struct Request: Sendable {
        package var isGet = false
        /// The values of the Upgrade fields, in the order of the request. The following properties contain other header
        /// fields in the same way; `origin` is in lower case.
        package var upgrade: [String] = []
        package var connection: [String] = []
        package var version: [String] = []
        package var key: [String] = []
        package var subprotocols: [String] = []
        package var origin: [String] = []

        package init() {}
    }

    /// Checks a request for a WebSocket.
    ///
    /// - Parameters:
    ///   - request: the header fields of the request.
    ///   - subprotocol: the subprotocol that the request must offer (RFC 7118: `sip`).
    ///   - origins: the allowed origins of pages, in lower case; if empty, all.
    /// - Throws: why the handshake is refused.
    package init(_ request: Request, subprotocol: String, origins: Set<String>) throws(Refusal) {
        guard Self.list(request.upgrade).contains("websocket"), Self.list(request.connection).contains("upgrade") else {
            throw .notAsked
        }
        guard request.version == ["13"] else { throw .version }
        guard request.isGet, request.key.count == 1, let key = request.key.first,
            Base64.standard.decode(Array(key.utf8).span)?.count == 16
        else { throw .malformed }
        // A client without an origin is accepted, because no access right depends on the origin.
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
