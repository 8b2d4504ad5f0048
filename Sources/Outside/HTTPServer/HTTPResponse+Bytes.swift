import HTTPSemantics
package import Timekeeping

extension HTTPResponse {
    /// The bytes of the whole response. A field with a line end or another forbidden byte is left out.
    package func bytes(at date: UnixTime, staysOpen: Bool, withoutBody: Bool = false) -> [UInt8] {
        var out = head(at: date, room: body.count)
        // A response with the status 1xx, 204 or 304 has no Content-Length (RFC 9110 section 8.6).
        let mayHaveBody = status >= 200 && status != 204 && status != 304
        if mayHaveBody { out += "Content-Length: \(body.count)\r\n".utf8 }
        out += staysOpen ? "\r\n".utf8 : "Connection: close\r\n\r\n".utf8
        if mayHaveBody, !withoutBody { out += body }
        return out
    }

    /// The bytes of the head, for a body that is sent in pieces. A body that is sent in pieces ends with its last
    /// chunk, or with the connection.
    func head(at date: UnixTime, staysOpen: Bool, isChunked: Bool) -> [UInt8] {
        precondition(status >= 200 && status != 204 && status != 304, "there is no body with this status")
        var out = head(at: date, room: 0)
        if isChunked { out += "Transfer-Encoding: chunked\r\n".utf8 }
        out += staysOpen ? "\r\n".utf8 : "Connection: close\r\n\r\n".utf8
        return out
    }

    private func head(at date: UnixTime, room: Int) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(256 + room)
        out += "HTTP/1.1 \(status) \(Self.phrase(for: status))\r\nDate: \(date.civil.headerText)\r\n".utf8
        for field in fields where field.canBeSent { out += "\(field.name): \(field.value)\r\n".utf8 }
        return out
    }

    /// A piece of a body, encoded as a chunk (RFC 9112 section 7.1).
    static func chunk(_ piece: [UInt8]) -> [UInt8] {
        Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + Array("\r\n".utf8)
    }

    static let lastChunk = Array("0\r\n\r\n".utf8)

    private static func phrase(for status: Int) -> String {
        switch status {
        case 101: "Switching Protocols"
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 204: "No Content"
        case 304: "Not Modified"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 413: "Content Too Large"
        case 415: "Unsupported Media Type"
        case 417: "Expectation Failed"
        case 422: "Unprocessable Content"
        case 426: "Upgrade Required"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        case 505: "HTTP Version Not Supported"
        default: "Other"
        }
    }
}

extension HTTPField {
    fileprivate var canBeSent: Bool {
        !name.isEmpty && name.utf8.allSatisfy(\.isTokenCharacter)
            && value.utf8.allSatisfy { $0 == 9 || ($0 >= 0x20 && $0 != 0x7f) }
    }
}
