import Bytes
import SIPGrammar
@testable import SIPMessage

/// Checks the values that `SIPGrammar` calls plain and accepts without libosip2. libosip2 must find the same parts at
/// the same indices.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzValues(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = unsafe Array(UnsafeBufferPointer(start: start, count: count))
    // Messages with control bytes are refused before values are read. Folds and tabs of a header value count as white
    // space.
    guard let kind = bytes.first, !bytes.contains(where: { $0 < 0x20 && !$0.isLinearSpace || $0 == 0x7f }) else {
        return 0
    }
    let (_, missing) = ParserMemory.read(bytes.span, FieldList(), spare: 64 * bytes.count + 4096) { memory in
        let reader = ValueReader(memory: memory)
        let range = 1..<bytes.count
        switch kind {
        case UInt8(ascii: "v"): checkVia(reader, range)
        case UInt8(ascii: "a"): checkAddress(reader, range)
        default: checkURI(reader, range)
        }
    }
    precondition(missing == 0, "the judge had too little memory")
    return 0
}

private func checkURI(_ reader: ValueReader, _ range: Range<Int>) {
    guard let uri = SIPURI(reader.memory.slice(range)), uri.isPlain else { return }
    precondition(reader.isAcceptable(uri, range), "libosip2 reads a plain URI differently")
    precondition(uri.scheme == .sip || uri.scheme == .sips, "a plain URI of another scheme")
}

private func checkVia(_ reader: ValueReader, _ range: Range<Int>) {
    guard let via = Via(reader.memory.slice(range)), via.isPlain else { return }
    precondition(reader.isAcceptable(via, range), "libosip2 reads a plain Via differently")
}

/// Checks an address, and its URI alone. Parameters belong to the URI inside brackets, and otherwise to the header
/// field.
private func checkAddress(_ reader: ValueReader, _ range: Range<Int>) {
    guard let address = reader.nameAddress(range) else { return }
    precondition(
        reader.uri(range.lowerBound + address.uriStart..<range.lowerBound + address.uriStart + address.uri.text.count)
            != nil, "a URI is only good in brackets")
    for parameter in address.parameters { precondition(!parameter.name.isEmpty, "a parameter without a name") }
}
