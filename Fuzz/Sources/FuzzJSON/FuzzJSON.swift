import Bytes
import JSON

/// Checks that no input crashes the JSON reader, that limits hold, that accepted texts are UTF-8, and that a value
/// survives writing and reading.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzJSON(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = unsafe Array(UnsafeBufferPointer(start: start, count: count))
    readToken(bytes)
    var limits = JSONReader.Limits()
    limits.bytes = 4096
    limits.values = 500
    let tokens = depth(of: bytes, limits)
    guard let value = try? JSONValue(bytes, limits: limits) else {
        precondition(tokens == nil, "accepted token by token, but not as a value")
        return 0
    }
    guard let tokens else { fatalError("accepted as a value, but not token by token") }
    precondition(tokens <= limits.depth, "deeper than allowed")
    precondition(String(validating: bytes, as: UTF8.self) != nil, "no UTF-8")
    var written: [UInt8] = []
    append(value, to: &written)
    // Escapes may make the written JSON text longer.
    limits.bytes = 100_000
    guard let again = try? JSONValue(written, limits: limits) else { fatalError("not read again") }
    precondition(again == value, "another value")
    return 0
}

/// Reads the bytes as a JSON web token, and as a token's claims.
private func readToken(_ bytes: [UInt8]) {
    let claims = String(decoding: Base64.url.encode(bytes), as: UTF8.self)
    for text in [ByteString(bytes), ByteString("eyJhbGciOiJSUzI1NiJ9.\(claims).AA"), ByteString("\(claims).e30.AA")] {
        guard let token = try? JSONWebToken(text) else { continue }
        precondition(text.count <= JSONWebToken.longest && token.signed.count < text.count, "too long")
        precondition(text[0..<token.signed.count].array == token.signed, "other bytes are signed")
        precondition(!token.signature.isEmpty, "no signature")
    }
}

/// Returns the greatest nesting depth in the text; `nil` if the text is refused.
private func depth(of bytes: [UInt8], _ limits: JSONReader.Limits) -> Int? {
    guard var reader = try? JSONReader(bytes, limits: limits) else { return nil }
    var deepest = 0
    while let token = try? reader.next() {
        deepest = max(deepest, reader.depth)
        switch token {
        case .end: return deepest
        case .key(let text), .string(let text):
            let string = reader.string(text)
            for name in ["", "a", "key", "reason"] as [StaticString] {
                precondition(reader.isEqual(text, to: name) == (string == name.description), "compared in two ways")
            }
        case .number(let range): precondition(!reader.number(range).isEmpty, "an empty number")
        default: break
        }
    }
    return nil
}

private func append(_ value: JSONValue, to out: inout [UInt8]) {
    switch value {
    case .null: out += Array("null".utf8)
    case .bool(let flag): out += Array((flag ? "true" : "false").utf8)
    case .number(let text): out += Array(text.utf8)
    case .string(let text): out.append(jsonString: text)
    case .array(let elements):
        out.append(UInt8(ascii: "["))
        for (index, element) in elements.enumerated() {
            if index > 0 { out.append(UInt8(ascii: ",")) }
            append(element, to: &out)
        }
        out.append(UInt8(ascii: "]"))
    case .object(let members):
        out.append(UInt8(ascii: "{"))
        for (index, member) in members.enumerated() {
            if index > 0 { out.append(UInt8(ascii: ",")) }
            out.append(jsonString: member.key)
            out.append(UInt8(ascii: ":"))
            append(member.value, to: &out)
        }
        out.append(UInt8(ascii: "}"))
    }
}
