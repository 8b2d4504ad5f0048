package import Addressing

/// One header field.
package struct HTTPField: Hashable, Sendable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// A complete request.
package struct HTTPRequest: Sendable {
    package let method: String
    /// As it came, with query and percent encoding.
    package let target: String
    /// The path's segments, each decoded by itself: `/a%2Fb//c` is `["a/b", "", "c"]`, and `/` is empty.
    ///
    /// Nothing is normalised, so `..` and empty segments match no route.
    package let path: [String]
    /// Names and values of the query, decoded, in their order.
    package let query: [HTTPField]
    package let fields: [HTTPField]
    package let body: [UInt8]
    /// `0.0.0.0:0` when it came over a Unix-domain socket.
    package let remote: Endpoint

    package init(
        method: String, target: String, fields: [HTTPField] = [], body: [UInt8] = [],
        remote: Endpoint = Endpoint(.anyV4, 0)
    ) {
        self.method = method
        self.target = target
        self.fields = fields
        self.body = body
        self.remote = remote
        let parts = RequestTarget(target)
        path = parts.path
        query = parts.query
    }

    /// The value of the first header field of that name, in any case.
    package func field(_ name: String) -> String? {
        let name = name.lowercased()
        return fields.first { $0.name.lowercased() == name }?.value
    }

    /// The value of the first query item of that name.
    package func query(_ name: String) -> String? { query.first { $0.name == name }?.value }
}

/// The parts of a request target (RFC 9112 section 3.2).
private struct RequestTarget {
    var path: [String] = []
    var query: [HTTPField] = []

    init(_ target: String) {
        var rest = target.utf8[...]
        if rest.first != UInt8(ascii: "/"), let scheme = rest.firstIndex(of: UInt8(ascii: ":")) {
            // Absolute form, as proxies send it: path and query start after the authority.
            let authority = rest[scheme...].drop { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "/") }
            rest = authority.drop { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        }
        if let hash = rest.firstIndex(of: UInt8(ascii: "#")) { rest = rest[..<hash] }
        let halves = rest.split(separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
        let segments = (halves.first ?? rest).split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        path = segments.dropFirst().map { Self.decoded($0) }
        if path == [""] { path = [] }
        guard halves.count == 2 else { return }
        query = halves[1].split(separator: UInt8(ascii: "&")).map { item in
            let sides = item.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            return HTTPField(
                Self.decoded(sides[0], plusIsSpace: true),
                sides.count == 2 ? Self.decoded(sides[1], plusIsSpace: true) : "")
        }
    }

    /// A `%` that no two hex digits follow stays as it is.
    private static func decoded(_ text: some Collection<UInt8>, plusIsSpace: Bool = false) -> String {
        var bytes: [UInt8] = []
        var rest = text[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), let high = rest.first.flatMap(hexValue),
                let low = rest.dropFirst().first.flatMap(hexValue)
            {
                bytes.append(high << 4 | low)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(plusIsSpace && byte == UInt8(ascii: "+") ? UInt8(ascii: " ") : byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
