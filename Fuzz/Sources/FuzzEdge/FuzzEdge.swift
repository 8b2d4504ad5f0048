import Addressing
import WebSocket

/// Fuzzes the readers of STUN, the PROXY header and WebSocket frames, one of which the input's first byte selects.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzEdge(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = unsafe Array(UnsafeBufferPointer(start: start, count: count))
    guard let kind = input.first else { return 0 }
    let bytes = Array(input.dropFirst())
    switch kind % 3 {
    case 0: checkSTUN(bytes)
    case 1: checkProxyHeader(bytes)
    default: checkFrames(bytes, seed: kind)
    }
    return 0
}

private func checkSTUN(_ bytes: [UInt8]) {
    let answer = STUNBinding.answer(to: bytes.span, from: Endpoint(.loopbackV4, 5060))
    precondition((answer?.count ?? 0) <= 3 * bytes.count, "a long answer")
}

/// Checks that bytes after a PROXY header do not change the result.
private func checkProxyHeader(_ bytes: [UInt8]) {
    let whole = ProxyHeader(bytes.span)
    for end in 0..<bytes.count {
        switch ProxyHeader(bytes.span.extracting(0..<end)) {
        case .incomplete: break
        case let earlier: precondition(earlier == whole, "more bytes change the result")
        }
    }
    if case .header(let length, _) = whole { precondition(length <= bytes.count, "longer than the input") }
}

/// Checks that WebSocket messages do not depend on the pieces in which their bytes arrive.
private func checkFrames(_ bytes: [UInt8], seed: UInt8) {
    let whole = messages(in: bytes) { bytes.count }
    var state = UInt32(seed) &+ 1
    let pieces = messages(in: bytes) {
        state = state &* 1_664_525 &+ 1_013_904_223
        return Int(state >> 24) % 9 + 1
    }
    precondition(whole == pieces, "pieces make a difference")
}

private func messages(in bytes: [UInt8], size: () -> Int) -> [[UInt8]] {
    guard let session = WebSocketSession(messageLimit: 2000) else { preconditionFailure("no memory") }
    var found: [[UInt8]] = []
    var place = 0
    while place < bytes.count {
        let end = min(bytes.count, place + size())
        let taken = session.receive(bytes.span.extracting(place..<end))
        found += session.takeMessages()
        for message in found { precondition(message.count <= 2000, "longer than allowed") }
        _ = session.takeOutput()
        guard taken > 0 else { break }
        place += taken
    }
    return found
}
