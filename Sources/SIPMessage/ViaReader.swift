import Bytes
import COsip2
import SIPGrammar

extension ValueReader {
    /// One Via value (RFC 3261 section 20.42).
    func via(_ range: Range<Int>) -> Via? {
        guard let text = memory.withBytes({ Self.viaText($0, range) }),
            let parameters = memory.withBytes({ parameters($0, text.upperBound..<range.upperBound, .growing) })
        else { return nil }
        let preparation = ParserMemory.Preparation(spacesBlanks: memory.withBytes { $0.hasOddBlanks(text) })
        return unsafe memory.withText(text, preparation) { pointer in
            var parsed: UnsafeMutablePointer<osip_via_t>?
            guard unsafe osip_via_init(&parsed) == 0, let parsed = unsafe parsed,
                unsafe osip_via_parse(parsed, pointer) == 0,
                let transport = unsafe memory.slice(parsed.pointee.`protocol`),
                let host = unsafe host(parsed.pointee.host), let port = unsafe port(parsed.pointee.port)
            else { return nil }
            return Via(transport: transport, host: host, port: port.number, parameters: parameters)
        }
    }

    /// The value up to its parameters, if it has the form `SIP/2.0/transport host[:port]`; white space is allowed around
    /// slashes and colon. libosip2 skips what else stands there.
    private static func viaText(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Range<Int>? {
        let end = bytes.firstIndex(of: UInt8(ascii: ";"), in: range) ?? range.upperBound
        var index = range.lowerBound
        func skip(_ text: StaticString) -> Bool {
            let next = index + text.utf8CodeUnitCount
            guard next <= end, bytes.equalsIgnoringCase(index..<next, text) else { return false }
            index = bytes.skipSpace(from: next, to: end)
            return true
        }
        guard skip("sip"), skip("/"), skip("2.0"), skip("/") else { return nil }
        let transport = index
        while index < end, bytes[index].isToken { index += 1 }
        guard index > transport, index < end, bytes[index].isLinearSpace else { return nil }
        return isSentBy(bytes, bytes.trimmed(index..<end)) ? range.lowerBound..<end : nil
    }

    private static func isSentBy(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        guard !range.isEmpty else { return false }
        var index = range.lowerBound
        if bytes[index] == UInt8(ascii: "[") {
            guard let close = bytes.firstIndex(of: UInt8(ascii: "]"), in: range),
                bytes.firstIndex(of: UInt8(ascii: ":"), in: index..<close) != nil
            else { return false }
            index = close + 1
        } else {
            while index < range.upperBound, bytes[index].isHostByte { index += 1 }
        }
        index = bytes.skipSpace(from: index, to: range.upperBound)
        guard index < range.upperBound else { return true }
        guard bytes[index] == UInt8(ascii: ":") else { return false }
        let port = bytes.trimmed(index + 1..<range.upperBound)
        for place in port where !bytes[place].isASCIIDigit { return false }
        return !port.isEmpty
    }
}
