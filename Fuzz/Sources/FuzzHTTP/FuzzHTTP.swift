import HTTPSemantics

/// Checks that no input crashes the HTTP reader, that requests do not depend on the pieces of the stream, and that each
/// request matches its head. The HTTP reader's files are links in this folder, because they are no module of their own.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzHTTP(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = unsafe Array(UnsafeBufferPointer(start: start, count: count))
    // The input's first byte determines how the other bytes are split into pieces.
    guard let seed = input.first else { return 0 }
    let stream = Array(input.dropFirst())
    let whole = pieces(stream) { stream.count }
    var state = UInt32(seed) &+ 1
    let split = pieces(stream) {
        state = state &* 1_664_525 &+ 1_013_904_223
        return Int(state >> 24) % (seed < 128 ? 8 : 200) + 1
    }
    precondition(whole == split, "pieces make a difference")
    return 0
}

private enum Piece: Equatable {
    case request(method: String, target: String, fields: [HTTPField], body: [UInt8], staysOpen: Bool)
    case wantsContinue
    case fault(HTTPFault)
}

private let headLimit = 2048
private let bodyLimit = 1024

private func pieces(_ stream: [UInt8], size: () -> Int) -> [Piece] {
    var reader = HTTPRequestReader(headLimit: headLimit, bodyLimit: bodyLimit)
    var found: [Piece] = []
    var begin = 0
    while begin < stream.count {
        let slice = Array(stream[begin..<min(stream.count, begin + max(size(), 1))])
        begin += slice.count
        var position = 0
        reading: while true {
            let before = position
            switch reader.next(in: slice.span, from: &position) {
            case .needsMore:
                precondition(position == slice.count, "bytes were left")
                break reading
            case .wantsContinue:
                // Whether the reader asks for the body depends on the pieces of the stream.
                break
            case .request(let head, let body):
                check(head, body)
                found.append(
                    .request(
                        method: head.method, target: head.target, fields: head.fields, body: body,
                        staysOpen: head.staysOpen))
            case .fault(let fault):
                precondition([400, 413, 417, 431, 501, 505].contains(fault.status), "another status")
                return found + [.fault(fault)]
            }
            precondition(position >= before && position <= slice.count, "outside the piece")
        }
    }
    return found
}

private func check(_ head: HTTPRequestHead, _ body: [UInt8]) {
    precondition(body.count <= bodyLimit, "a body beyond the limit")
    if case .length(let length) = head.body { precondition(body.count == length, "another length") }
    let request = HTTPRequest(method: head.method, target: head.target, fields: head.fields, body: body)
    precondition(request.fields.count { $0.name.lowercased() == "content-length" } <= 1, "two lengths")
    precondition(
        request.field("transfer-encoding") == nil || request.field("content-length") == nil, "two ends of one body")
    for field in request.fields {
        precondition(!field.name.isEmpty && !field.value.utf8.contains(0x0a) && !field.value.utf8.contains(0x0d))
    }
    // Decoding makes a text at most three times as long, because U+FFFD may replace an invalid byte.
    for item in request.query + FormText.items(body[...]) {
        precondition(item.name.utf8.count <= head.target.utf8.count * 3 + body.count * 3)
    }
    precondition(request.path.count <= head.target.utf8.count, "more segments than bytes")
}
