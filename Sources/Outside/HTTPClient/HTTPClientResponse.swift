import Bytes

/// A complete HTTP response with any status, including errors such as 4xx and 5xx.
package struct HTTPClientResponse: Sendable {
    package let status: Int
    package let version: HTTPRoute.Version
    package let body: [UInt8]
    /// The time from the start of the request to the last byte of the response, including all waits.
    package let duration: Duration
    /// Whether a new connection was opened for the request.
    package let isNewConnection: Bool
    /// The header lines as received.
    private let head: [UInt8]

    /// The maximum size of a response's header fields in bytes, above which the request fails.
    package static let headLimit = 16 << 10

    package init(
        status: Int, version: HTTPRoute.Version, head: [UInt8], body: [UInt8], duration: Duration,
        isNewConnection: Bool
    ) {
        self.status = status
        self.version = version
        self.head = head
        self.body = body
        self.duration = duration
        self.isNewConnection = isNewConnection
    }

    /// The trimmed value of the first header field with the given name, in upper or lower case.
    package func header(_ name: String) -> String? {
        let (head, name) = (head.span, name.utf8.span)
        var start = 0
        while start < head.count {
            let end = head.firstIndex(of: UInt8(ascii: "\n"), in: start..<head.count) ?? head.count
            if let value = Self.value(in: head.extracting(start..<end), of: name) { return value }
            start = end + 1
        }
        return nil
    }

    private static func value(in line: Span<UInt8>, of name: Span<UInt8>) -> String? {
        guard line.count > name.count, line[name.count] == UInt8(ascii: ":") else { return nil }
        for index in name.indices where line[index].lowercased != name[index].lowercased { return nil }
        let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 || $0 == 0x0d }
        var value = name.count + 1..<line.count
        while let first = value.first, isBlank(line[first]) { value.removeFirst() }
        while let last = value.last, isBlank(line[last]) { value.removeLast() }
        return unsafe line.extracting(value).withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
    }
}

extension UInt8 {
    fileprivate var lowercased: UInt8 { self &- UInt8(ascii: "A") < 26 ? self | 0x20 : self }
}
