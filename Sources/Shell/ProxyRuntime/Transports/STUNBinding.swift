package import Addressing

/// Answers STUN Binding requests (RFC 5389), which phones send to keep a NAT mapping open and to detect a new address
/// (RFC 5626 section 4.4.2).
///
/// An answer needs no stored state, and is hardly longer than the request.
package enum STUNBinding {
    private static let cookie: UInt32 = 0x2112_a442
    private static let headLength = 20

    /// Returns the answer to a Binding request; `nil` for any other bytes, which the daemon does not answer.
    package static func answer(to request: Span<UInt8>, from source: Endpoint) -> [UInt8]? {
        guard request.count >= headLength, number(request, 0, 2) == 0x0001, number(request, 4, 4) == UInt64(cookie),
            Int(number(request, 2, 2)) == request.count - headLength, let unknown = unknownAttributes(request)
        else { return nil }
        var body: [UInt8] = []
        if unknown.isEmpty {
            appendAddress(source, transaction: request, to: &body)
        } else {
            // A request with unknown attributes gets the error 420 with the list of the unknown attributes.
            body += [0x00, 0x09, 0x00, 0x04, 0, 0, 4, 20, 0x00, 0x0a, 0, UInt8(truncatingIfNeeded: unknown.count * 2)]
            for type in unknown { append(UInt64(type), 2, to: &body) }
            if unknown.count % 2 == 1 { body += [0, 0] }
        }
        var answer: [UInt8] = []
        append(unknown.isEmpty ? 0x0101 : 0x0111, 2, to: &answer)
        append(UInt64(body.count), 2, to: &answer)
        for index in 4..<headLength { answer.append(request[index]) }
        return answer + body
    }

    /// Returns up to four attributes that a server must understand and this daemon does not know; `nil` if the request
    /// is incomplete.
    private static func unknownAttributes(_ request: Span<UInt8>) -> [UInt16]? {
        var unknown: [UInt16] = []
        var place = headLength
        while place < request.count {
            guard place + 4 <= request.count else { return nil }
            let type = UInt16(truncatingIfNeeded: number(request, place, 2))
            let length = Int(number(request, place + 2, 2))
            if type < 0x8000, unknown.count < 4 { unknown.append(type) }
            // Each STUN attribute begins at a multiple of four bytes.
            place += 4 + (length + 3) & ~3
        }
        return place == request.count ? unknown : nil
    }

    /// Appends to a STUN response the attribute XOR-MAPPED-ADDRESS (RFC 5389 section 15.2).
    private static func appendAddress(_ source: Endpoint, transaction: Span<UInt8>, to body: inout [UInt8]) {
        let isV4 = source.address.isV4
        append(0x0020, 2, to: &body)
        append(isV4 ? 8 : 20, 2, to: &body)
        append(isV4 ? 1 : 2, 2, to: &body)
        append(UInt64(source.port ^ UInt16(cookie >> 16)), 2, to: &body)
        guard !isV4 else { return append(UInt64(source.address.v4Bits ^ cookie), 4, to: &body) }
        append(source.address.high ^ number(transaction, 4, 8), 8, to: &body)
        append(source.address.low ^ number(transaction, 12, 8), 8, to: &body)
    }

    private static func number(_ bytes: Span<UInt8>, _ start: Int, _ count: Int) -> UInt64 {
        var number: UInt64 = 0
        for index in start..<start + count { number = number << 8 | UInt64(bytes[index]) }
        return number
    }

    private static func append(_ number: UInt64, _ count: Int, to bytes: inout [UInt8]) {
        for place in (0..<count).reversed() { bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(8 * place))) }
    }
}
