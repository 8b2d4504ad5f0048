import COsip2
import Bytes
import SIPGrammar

extension ValueReader {
    /// Reads digest credentials from a field's value; `nil` for another scheme, or if a mandatory part is missing or
    /// malformed.
    func credentials(_ range: Range<Int>) -> DigestCredentials? {
        guard memory.withBytes({ Self.isDigest($0, range) }) else { return nil }
        let preparation = ParserMemory.Preparation(spacesBlanks: memory.withBytes { $0.hasOddBlanks(range) })
        return unsafe memory.withText(range, preparation) { pointer in
            var parsed: UnsafeMutablePointer<osip_authorization_t>?
            guard unsafe osip_authorization_init(&parsed) == 0, let parsed = unsafe parsed,
                unsafe osip_authorization_parse(parsed, pointer) == 0
            else { return nil }
            let raw = unsafe parsed.pointee
            guard let username = unsafe unquoted(raw.username), let realm = unsafe unquoted(raw.realm),
                let nonce = unsafe unquoted(raw.nonce), let uri = unsafe unquoted(raw.uri),
                let response = unsafe unquoted(raw.response)
            else { return nil }
            return unsafe DigestCredentials(
                username: username, realm: realm, nonce: nonce, uri: uri, response: response,
                algorithm: unquoted(raw.algorithm), qop: unquoted(raw.message_qop),
                nonceCount: unquoted(raw.nonce_count), cnonce: unquoted(raw.cnonce))
        }
    }

    /// Whether the scheme is Digest, and the value has few commas. libosip2 is slow for values with many commas.
    private static func isDigest(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        let schemeEnd = range.lowerBound + 6
        guard range.count > 7, bytes.equalsIgnoringCase(range.lowerBound..<schemeEnd, "digest"),
            bytes[schemeEnd].isLinearSpace
        else { return false }
        var commas = 0
        var rest = range
        while let comma = bytes.firstIndex(of: UInt8(ascii: ","), in: rest) {
            commas += 1
            rest = comma + 1..<range.upperBound
        }
        return commas <= ReaderLimits.credentialParts
    }

    private func unquoted(_ text: UnsafeMutablePointer<CChar>?) -> ByteString? {
        unsafe memory.slice(text)?.unquoted()
    }
}
