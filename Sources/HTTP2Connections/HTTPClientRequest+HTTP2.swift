import HTTP2
import HTTPClient

extension HTTPClientRequest {
    /// Writes the head as HTTP/2 wants it (RFC 9113 section 8.3), for a URL that goes to `target`.
    func write(into block: inout HeaderBlock, to target: RequestTarget) {
        block.append(":method", method)
        block.append(":scheme", "https")
        block.append(":authority", headers.first { $0.name.isName("host") }?.value ?? target.authority)
        writePath(into: &block, behind: target.beginning.utf8.count)
        var hasLength = false
        for header in headers {
            switch header.role {
            case .plain: block.append(header.name, header.value)
            case .unique: block.append(header.name, header.value, isRepeated: false)
            case .length:
                hasLength = true
                block.append(header.name, header.value)
            case .ofConnection: break
            }
        }
        if !hasLength, !body.isEmpty || method == "POST" || method == "PUT" {
            block.append("content-length", String(body.count))
        }
    }

    private func writePath(into block: inout HeaderBlock, behind offset: Int) {
        let url = url.utf8.span
        var end = offset
        while end < url.count, url[end] != UInt8(ascii: "#") { end += 1 }
        if end > offset, url[offset] == UInt8(ascii: "/") {
            block.append(":path", url.extracting(offset..<end))
        } else {
            block.append(
                ":path", "/" + String(decoding: self.url.utf8.dropFirst(offset).prefix(end - offset), as: UTF8.self))
        }
    }
}

extension HTTPHeader {
    fileprivate enum Role {
        case plain
        /// A field whose value is hardly ever the same twice, so that it has no place in the compression table.
        case unique
        case length
        /// A field that is left out: it is about connections of HTTP/1.1 (RFC 9113 section 8.2.2), or HTTP/2 has a
        /// field of its own for it.
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
    /// Whether it is that header name, which is given in lower case.
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
