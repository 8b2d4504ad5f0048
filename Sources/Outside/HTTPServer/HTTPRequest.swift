package import Addressing
package import HTTPSemantics

package struct HTTPRequest: Sendable {
    package let method: String
    /// The request target as received, with query and percent encoding.
    package let target: String
    /// The path's segments, decoded separately: `/a%2Fb//c` is `["a/b", "", "c"]`, and `/` is empty.
    ///
    /// The path is not normalised, so that paths with `..` or empty segments match no route.
    package let path: [String]
    /// The decoded names and values of the query, in their order.
    package let query: [HTTPField]
    package let fields: [HTTPField]
    package let body: [UInt8]
    /// The client's address; `0.0.0.0:0` for a Unix-domain socket.
    package let remote: Endpoint
    /// The id of the connection, unique in the process.
    package let connection: UInt64
    /// The user who connected to the Unix-domain socket, from the kernel; `nil` for TCP.
    package let peerUser: UInt32?

    package init(
        method: String, target: String, fields: [HTTPField] = [], body: [UInt8] = [],
        remote: Endpoint = Endpoint(.anyV4, 0), connection: UInt64 = 0, peerUser: UInt32? = nil
    ) {
        self.method = method
        self.target = target
        self.fields = fields
        self.body = body
        self.remote = remote
        self.connection = connection
        self.peerUser = peerUser
        (path, query) = Self.parts(of: target)
    }

    /// Splits a request target into the path's segments and the query (RFC 9112 section 3.2).
    private static func parts(of target: String) -> (path: [String], query: [HTTPField]) {
        var rest = Array(target.utf8)[...]
        if rest.first != UInt8(ascii: "/"), let scheme = rest.firstIndex(of: UInt8(ascii: ":")) {
            // A target in absolute form, as for proxies, has the path and the query after the authority.
            let authority = rest[scheme...].drop { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "/") }
            rest = authority.drop { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        }
        if let hash = rest.firstIndex(of: UInt8(ascii: "#")) { rest = rest[..<hash] }
        let halves = rest.split(separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
        let segments = (halves.first ?? rest).split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        let path = segments.dropFirst().map { FormText.decoded($0) }
        return (path == [""] ? [] : path, halves.count == 2 ? FormText.items(halves[1]) : [])
    }

    /// The value of the first header field with the given name, in upper or lower case.
    package func field(_ name: String) -> String? {
        let name = name.lowercased()
        return fields.first { $0.name.utf8.count == name.utf8.count && $0.name.lowercased() == name }?.value
    }

    /// The media type in `Content-Type`, in lower case and without parameters; empty without the field.
    package var mediaType: String {
        let ends = [UInt8(ascii: ";"), UInt8(ascii: " "), UInt8(ascii: "\t")]
        return Substring((field("content-type") ?? "").utf8.prefix { !ends.contains($0) }).lowercased()
    }

    /// The value of the first query item with the given name.
    package func query(_ name: String) -> String? { query.first { $0.name == name }?.value }
}
