/// An answer, complete: also those with status 4xx and 5xx.
package struct HTTPClientResponse: Sendable {
    package let status: Int
    package let version: HTTPClientRequest.Version
    package let body: [UInt8]
    /// From the start of the request, with all waiting, to the last byte.
    package let duration: Duration
    /// Whether a connection was made because of this request.
    package let isNewConnection: Bool
    /// Header lines as they came.
    private let head: [UInt8]

    /// How many bytes the header lines may have; more fail the request.
    package static let headLimit = 16 << 10

    package init(
        status: Int, version: HTTPClientRequest.Version, head: [UInt8], body: [UInt8], duration: Duration,
        isNewConnection: Bool
    ) {
        self.status = status
        self.version = version
        self.head = head
        self.body = body
        self.duration = duration
        self.isNewConnection = isNewConnection
    }

    /// The value of the first header field of that name, in any case, without white space around it.
    package func header(_ name: String) -> String? {
        let wanted = Array(name.utf8)
        var start = 0
        while start < head.count {
            let end = head[start...].firstIndex(of: UInt8(ascii: "\n")) ?? head.count
            if let value = value(in: head[start..<end], of: wanted) { return value }
            start = end + 1
        }
        return nil
    }

    private func value(in line: ArraySlice<UInt8>, of name: [UInt8]) -> String? {
        guard line.count > name.count, line[line.startIndex + name.count] == UInt8(ascii: ":") else { return nil }
        for (byte, wanted) in zip(line, name) where byte.lowercased != wanted.lowercased { return nil }
        let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 || $0 == 0x0d }
        let value = line[(line.startIndex + name.count + 1)...].drop(while: isBlank)
        let end = value.lastIndex { !isBlank($0) }.map { $0 + 1 } ?? value.startIndex
        return String(decoding: value[..<end], as: UTF8.self)
    }
}

extension UInt8 {
    fileprivate var lowercased: UInt8 { self &- UInt8(ascii: "A") < 26 ? self | 0x20 : self }
}
