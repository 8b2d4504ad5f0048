import Bytes

/// Splits the bytes of a connection into HTTP requests (RFC 9112), from pieces of any size and without I/O.
///
/// After a malformed request, the reader takes no more input, because the start of the next request is unknown.
package struct HTTPRequestReader {
    /// The result of reading the input so far.
    package enum Step {
        case needsMore
        /// The client waits for permission to send the body (100 Continue).
        case wantsContinue
        case request(HTTPRequestHead, body: [UInt8])
        case fault(HTTPFault)
    }

    /// The part of a request to which the next byte belongs, and which has a time limit of its own.
    enum Part: Hashable {
        /// Between two requests.
        case none
        case head
        case body
    }

    private enum State {
        /// The head; its current line begins at the index `lineStart` of `head`.
        case head(lineStart: Int)
        /// A body or a chunk; `missing` of its bytes have not arrived yet.
        case body(HTTPRequestHead, missing: Int, isChunk: Bool)
        /// In the line with a chunk's size; the bytes are the part that has arrived.
        case chunkSize(HTTPRequestHead, [UInt8])
        /// In the CRLF after a chunk's bytes, or after the last chunk; `next` is the byte that must come next.
        case chunkEnd(HTTPRequestHead, next: UInt8, isLast: Bool)
        case failed(HTTPFault)
    }

    private let headLimit: Int
    private let bodyLimit: Int
    private var state = State.head(lineStart: 0)
    private var head: [UInt8] = []
    /// The range in `head` of each line, without its CRLF.
    private var lines: [Range<Int>] = []
    private var body: [UInt8] = []
    /// How many bytes of a chunked body have arrived. The size lines count too, so that the limit also applies to many
    /// small chunks.
    private var chunkedCount = 0
    /// Whether the client already has permission to send its body.
    private var wasContinueGiven = false

    private static let carriageReturn = UInt8(ascii: "\r")
    private static let lineFeed = UInt8(ascii: "\n")
    private static let sizeDigits = 8

    package init(headLimit: Int, bodyLimit: Int) {
        self.headLimit = headLimit
        self.bodyLimit = bodyLimit
    }

    var part: Part {
        switch state {
        case .head: head.isEmpty ? .none : .head
        case .body, .chunkSize, .chunkEnd: .body
        case .failed: .none
        }
    }

    /// Reads bytes from `position` on, at most to the end of one request, and moves `position` behind them.
    package mutating func next(in bytes: Span<UInt8>, from position: inout Int) -> Step {
        do throws(HTTPFault) {
            while true {
                if let step = try finished() { return step }
                guard position < bytes.count else { return .needsMore }
                try take(bytes, from: &position)
            }
        } catch {
            state = .failed(error)
            position = bytes.count
            return .fault(error)
        }
    }

    // MARK: Complete parts

    /// The step that needs no more bytes; `nil` if more bytes are needed.
    private mutating func finished() throws(HTTPFault) -> Step? {
        switch state {
        case .body(let head, missing: 0, isChunk: false): return finish(head)
        case .body(let head, _, isChunk: false), .chunkSize(let head, _):
            guard head.expectsContinue, !wasContinueGiven, body.isEmpty, chunkedCount == 0 else { return nil }
            wasContinueGiven = true
            return .wantsContinue
        case .failed(let fault): throw fault
        case .head, .body, .chunkEnd: return nil
        }
    }

    private mutating func finish(_ head: HTTPRequestHead) -> Step {
        let taken = body
        reset()
        return .request(head, body: taken)
    }

    private mutating func reset() {
        state = .head(lineStart: 0)
        head.removeAll(keepingCapacity: true)
        lines.removeAll(keepingCapacity: true)
        body = []
        chunkedCount = 0
        wasContinueGiven = false
    }

    // MARK: Taking bytes

    private mutating func take(_ bytes: Span<UInt8>, from position: inout Int) throws(HTTPFault) {
        switch state {
        case .head(let lineStart):
            try takeHead(bytes[position], lineStart)
            position += 1
        case .body(let head, let missing, let isChunk):
            let end = position + min(missing, bytes.count - position)
            body.append(bytes.extracting(position..<end))
            let rest = missing - (end - position)
            position = end
            state =
                isChunk && rest == 0
                ? .chunkEnd(head, next: Self.carriageReturn, isLast: false)
                : .body(head, missing: rest, isChunk: isChunk)
        case .chunkSize(let head, let digits):
            try takeChunkSize(bytes[position], digits, head)
            position += 1
        case .chunkEnd(let head, let next, let isLast):
            try takeChunkEnd(bytes[position], expected: next, isLast: isLast, head)
            position += 1
        case .failed(let fault): throw fault
        }
    }

    private mutating func takeHead(_ byte: UInt8, _ lineStart: Int) throws(HTTPFault) {
        let isAfterReturn = head.count > lineStart && head.last == Self.carriageReturn
        guard isAfterReturn == (byte == Self.lineFeed) else {
            throw HTTPFault(400, "lines of the head end with CR and LF together")
        }
        head.append(byte)
        guard head.count <= headLimit else { throw HTTPFault(431, "the head is too long") }
        guard byte == Self.lineFeed else { return }
        let line = lineStart..<head.count - 2
        if !line.isEmpty {
            lines.append(line)
            state = .head(lineStart: head.count)
        } else if lines.isEmpty {
            // An empty line before the request line is skipped, because some old clients send one after a body (RFC
            // 9112 section 2.2).
            state = .head(lineStart: head.count)
        } else {
            try headEnded()
        }
    }

    private mutating func headEnded() throws(HTTPFault) {
        let read = try HTTPRequestHead(lines: lines.map { head[$0] })
        switch read.body {
        case .length(let length):
            guard length <= bodyLimit else { throw HTTPFault(413, "the body is too long") }
            body.reserveCapacity(min(length, 64 << 10))
            state = .body(read, missing: length, isChunk: false)
        case .chunked: state = .chunkSize(read, [])
        }
    }

    /// Reads a byte of the line with a chunk's size (RFC 9112 section 7.1). Chunk extensions are refused, because
    /// clients do not need them, and programs disagree about their form.
    private mutating func takeChunkSize(_ byte: UInt8, _ digits: [UInt8], _ head: HTTPRequestHead) throws(HTTPFault) {
        try countChunked(1)
        guard digits.last != Self.carriageReturn else {
            guard byte == Self.lineFeed, let size = Int(String(decoding: digits.dropLast(), as: UTF8.self), radix: 16)
            else { throw HTTPFault(400, "a chunk's size is malformed") }
            try countChunked(size)
            state =
                size == 0
                ? .chunkEnd(head, next: Self.carriageReturn, isLast: true) : .body(head, missing: size, isChunk: true)
            return
        }
        guard byte.hexValue != nil || (byte == Self.carriageReturn && !digits.isEmpty) else {
            throw HTTPFault(400, "a chunk's size is malformed")
        }
        guard digits.count < Self.sizeDigits || byte == Self.carriageReturn else {
            throw HTTPFault(413, "the body is too long")
        }
        state = .chunkSize(head, digits + [byte])
    }

    private mutating func takeChunkEnd(
        _ byte: UInt8, expected: UInt8, isLast: Bool, _ head: HTTPRequestHead
    ) throws(HTTPFault) {
        try countChunked(1)
        guard byte == expected else {
            throw HTTPFault(
                400, isLast ? "fields after the last chunk are not accepted" : "a chunk does not end with CRLF")
        }
        if byte == Self.carriageReturn {
            state = .chunkEnd(head, next: Self.lineFeed, isLast: isLast)
        } else {
            state = isLast ? .body(head, missing: 0, isChunk: false) : .chunkSize(head, [])
        }
    }

    private mutating func countChunked(_ count: Int) throws(HTTPFault) {
        chunkedCount += count
        guard chunkedCount <= bodyLimit else { throw HTTPFault(413, "the body is too long") }
    }
}
