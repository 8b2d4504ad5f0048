import Bytes
import SIPGrammar
import SIPMessage

/// Checks that the pieces of the stream do not change the messages, and that reader and framer find the same end of
/// each message.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzFramer(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = unsafe Array(UnsafeBufferPointer(start: start, count: count))
    // The input's first byte determines how the other bytes are split into pieces.
    guard let seed = input.first else { return 0 }
    let stream = Array(input.dropFirst())
    let whole = frames(stream) { stream.count }
    var state = UInt32(seed) &+ 1
    let split = frames(stream) {
        state = state &* 1_664_525 &+ 1_013_904_223
        return Int(state >> 24) % (seed < 128 ? 8 : 200) + 1
    }
    precondition(whole == split, "pieces make a difference")
    return 0
}

private enum Piece: Equatable {
    case keepAlive(Int)
    case message([UInt8])
    case waiting(Int)
    case broken
}

private func frames(_ stream: [UInt8], size: () -> Int) -> [Piece] {
    var framer = StreamFramer()
    var found: [Piece] = []
    // Bytes before `taken` are used, and bytes from `arrived` on have not arrived yet.
    var taken = 0
    var arrived = 0
    while true {
        var head: MessageHead?
        switch framer.next(in: stream.span.extracting(taken..<arrived), head: &head) {
        case .incomplete:
            guard arrived < stream.count else { return found + [.waiting(stream.count - taken)] }
            arrived = min(arrived + size(), stream.count)
        case .keepAlive(let count):
            found.append(.keepAlive(count))
            taken += count
        case .message(let count):
            let bytes = Array(stream[taken..<taken + count])
            check(bytes, head)
            found.append(.message(bytes))
            taken += count
        case .broken: return found + [.broken]
        }
    }
}

private func check(_ bytes: [UInt8], _ head: MessageHead?) {
    let message = MessageReader().read(bytes.span, isStream: true, head: head)
    let again = MessageReader().read(bytes.span, isStream: true)
    switch (message, again) {
    case (.request, .request), (.response, .response): break
    case (.unusable(let one), .unusable(let other)) where one.reason == other.reason: break
    default: preconditionFailure("the framer has read another head than the reader")
    }
    switch message {
    case .request(let request): precondition(request.frame.bytes.count == bytes.count, "another end")
    case .response(let response): precondition(response.frame.bytes.count == bytes.count, "another end")
    case .unusable: break
    }
}
