/// Splits the bytes of an HTTP/1.1 connection into requests (RFC 9112): bodies with a Content-Length only.
package struct HTTP1Reader {
    /// A request without its connection.
    package struct Request {
        package var method: String
        package var target: String
        package var headers: [String: String] = [:]
        package var repeatedHeaders: Set<String> = []
        package var body: [UInt8] = []
        /// Whether the connection stays open after the answer.
        package var staysOpen = true
    }

    /// What cannot be read, with the status to answer before the connection is closed.
    package struct Fault: Error, Hashable {
        package let status: Int
    }

    private var bytes: [UInt8] = []

    package init() {}

    private static let bufferLimit = SandboxRequest.headLimit + SandboxRequest.bodyLimit

    package mutating func append(_ more: Span<UInt8>) throws(Fault) {
        guard bytes.count + more.count <= 2 * Self.bufferLimit else { throw Fault(status: 413) }
        for index in more.indices { bytes.append(more[index]) }
    }

    /// The next complete request; `nil` until there is one.
    package mutating func next() throws(Fault) -> Request? {
        // Empty lines before a request line are allowed.
        while bytes.starts(with: [13, 10]) { bytes.removeFirst(2) }
        guard let end = headEnd() else {
            if bytes.count > SandboxRequest.headLimit { throw Fault(status: 431) }
            return nil
        }
        guard end <= SandboxRequest.headLimit else { throw Fault(status: 431) }
        var request = try Self.head(bytes[..<end])
        let length = try Self.bodyLength(request)
        guard length <= SandboxRequest.bodyLimit else { throw Fault(status: 413) }
        let start = end + 4
        guard bytes.count - start >= length else { return nil }
        request.body = Array(bytes[start..<(start + length)])
        bytes.removeFirst(start + length)
        return request
    }

    /// Where the empty line begins.
    private func headEnd() -> Int? {
        guard bytes.count >= 4 else { return nil }
        for index in 0...(bytes.count - 4)
        where bytes[index] == 13 && bytes[index + 1] == 10 && bytes[index + 2] == 13 && bytes[index + 3] == 10 {
            return index
        }
        return nil
    }

    private static func head(_ bytes: ArraySlice<UInt8>) throws(Fault) -> Request {
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
        let words = (lines.first ?? "").split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3, !words[0].isEmpty, words[1].hasPrefix("/") else { throw Fault(status: 400) }
        guard words[2] == "HTTP/1.1" || words[2] == "HTTP/1.0" else { throw Fault(status: 505) }
        var request = Request(method: String(words[0]), target: String(words[1]))
        request.staysOpen = words[2] == "HTTP/1.1"
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":"), colon != line.startIndex else { throw Fault(status: 400) }
            let name = line[..<colon].lowercased()
            guard !name.contains(where: \.isWhitespace) else { throw Fault(status: 400) }
            let value = line[line.index(after: colon)...].trimmingSpaces
            if request.headers[name] == nil {
                request.headers[name] = value
            } else {
                request.repeatedHeaders.insert(name)
            }
        }
        switch request.headers["connection"]?.lowercased() {
        case "close": request.staysOpen = false
        case "keep-alive": request.staysOpen = true
        default: break
        }
        return request
    }

    private static func bodyLength(_ request: Request) throws(Fault) -> Int {
        guard request.headers["transfer-encoding"] == nil else { throw Fault(status: 411) }
        guard let text = request.headers["content-length"] else { return 0 }
        guard !request.repeatedHeaders.contains("content-length"), !text.isEmpty,
            text.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { throw Fault(status: 400) }
        // More digits than an Int holds is certainly too long.
        guard let length = Int(text) else { throw Fault(status: 413) }
        return length
    }
}

extension Substring {
    fileprivate var trimmingSpaces: String {
        var text = self
        while text.first == " " || text.first == "\t" { text.removeFirst() }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return String(text)
    }
}
