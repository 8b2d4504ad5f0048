package import HTTP2
package import HTTPClient
import HTTPSemantics

/// Writes the heads of successive requests to one server, in the form of HTTP/2 (RFC 9113 section 8.3).
///
/// Header fields that did not change since the previous request are reused.
package struct RequestHead {
    private let target: RequestTarget
    /// The header fields of the last request.
    package var block = HeaderBlock()
    /// The last request whose complete head was written, without its body; later requests are compared with it.
    private var model: HTTPClientRequest?
    /// The index in the block of each header field of `model`; `nil` for a field that is left out.
    private var places: [Int?] = []
    private var hasLength = false
    /// The position in the block after the fields that later requests share with `model`.
    private var mark = HeaderBlock().mark

    /// The index of `:path` in the header block.
    private static let path = 3

    /// Prepares to write heads of requests to `target`.
    package init(to target: RequestTarget) { self.target = target }

    package mutating func write(_ request: HTTPClientRequest) {
        block.removeRest(behind: mark)
        if let model, Self.haveSameFields(model, request) {
            for index in request.headers.indices where request.headers[index].value != model.headers[index].value {
                guard let place = places[index] else { continue }
                block.setValue(at: place, to: request.headers[index].value.utf8.span)
            }
        } else {
            writeWhole(request)
        }
        writePath(of: request)
        if !hasLength, !request.body.isEmpty || request.method == "POST" || request.method == "PUT" {
            block.append("content-length", String(request.body.count))
        }
    }

    private static func haveSameFields(_ one: HTTPClientRequest, _ other: HTTPClientRequest) -> Bool {
        guard one.method == other.method, one.headers.count == other.headers.count else { return false }
        for index in one.headers.indices where one.headers[index].name != other.headers[index].name { return false }
        return true
    }

    private mutating func writeWhole(_ request: HTTPClientRequest) {
        block.removeAll()
        places = []
        hasLength = false
        let host = request.headers.first { $0.name.isName("host") }
        block.append(":method", request.method)
        block.append(":scheme", "https")
        block.append(":authority", host?.value ?? target.authority)
        block.append(":path", "")
        for header in request.headers {
            let role = header.role
            places.append(role == .ofConnection ? nil : block.count)
            if role == .length { hasLength = true }
            if role != .ofConnection { block.append(header.name, header.value, isRepeated: role != .unique) }
        }
        mark = block.mark
        model = request
        model?.body = []
        // A Host field becomes `:authority` and has no index of its own, so its request cannot be the model.
        if host != nil { model = nil }
    }

    private mutating func writePath(of request: HTTPClientRequest) {
        let offset = target.beginning.utf8.count
        let url = request.url.utf8.span
        var end = offset
        while end < url.count, url[end] != UInt8(ascii: "#") { end += 1 }
        if end > offset, url[offset] == UInt8(ascii: "/") {
            block.setValue(at: Self.path, to: url.extracting(offset..<end))
        } else {
            let path = "/" + String(decoding: request.url.utf8.dropFirst(offset).prefix(end - offset), as: UTF8.self)
            block.setValue(at: Self.path, to: path.utf8.span)
        }
    }
}

extension HTTPField {
    fileprivate enum Role {
        case plain
        /// A header field with an almost never repeated value, which stays out of the compression table (HPACK).
        case unique
        case length
        /// A header field of HTTP/1.1 that is left out (RFC 9113 section 8.2.2), or for which HTTP/2 has another field.
        case ofConnection
    }

    fileprivate var role: Role {
        switch name.utf8.count {
        case 2: name.isName("te") ? .ofConnection : .plain
        case 4: name.isName("host") ? .ofConnection : .plain
        case 6: name.isName("expect") ? .ofConnection : .plain
        case 7: name.isName("apns-id") ? .unique : name.isName("upgrade") ? .ofConnection : .plain
        case 10: name.isName("connection") || name.isName("keep-alive") ? .ofConnection : .plain
        case 14: name.isName("content-length") ? .length : .plain
        case 15: name.isName("apns-expiration") ? .unique : .plain
        case 16:
            name.isName("apns-collapse-id") ? .unique : name.isName("proxy-connection") ? .ofConnection : .plain
        case 17: name.isName("transfer-encoding") ? .ofConnection : .plain
        default: .plain
        }
    }
}

extension String {
    /// Whether the text equals the lower-case header name `name` in any case.
    fileprivate func isName(_ name: String) -> Bool {
        let (own, name) = (utf8.span, name.utf8.span)
        guard own.count == name.count else { return false }
        for index in own.indices {
            let byte = own[index]
            guard (byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte) == name[index] else { return false }
        }
        return true
    }
}
