package import Bytes

/// A signed JSON web token in compact form (RFC 7515 section 7.1, RFC 7519), whose signature is decoded but not
/// checked.
///
/// The header members `jku`, `x5u`, `jwk` and `x5c`, which name or contain a key, are ignored. The sender of a token
/// must not choose the key that checks the signature.
package struct JSONWebToken: Sendable {
    package enum Fault: Error, Hashable, Sendable {
        case tooLong
        /// The text is not three parts of base64url with dots between them.
        case form
        /// The header or the claims are no JSON object, or have a member twice.
        case json
        /// A member has a value of a wrong type, or a value that is too long or too large (RFC 7515, RFC 7519).
        case value
        /// The header has the member `crit`, or a `typ` other than JWT.
        case extensions
    }

    /// The signature algorithm: the member `alg` of the header.
    package let algorithm: String
    /// The name of the key: the member `kid` of the header, if any.
    package let keyID: String?
    package let issuer: String?
    package let audiences: [String]
    /// The expiry in Unix seconds: the claim `exp`, if any.
    package let expiry: Int64?
    /// The Unix time in seconds before which the token is not valid: the claim `nbf`, if any.
    package let start: Int64?
    package let signature: [UInt8]
    /// The bytes that the signature covers: the first two parts and the dot between them.
    package let signed: [UInt8]
    private let claims: JSONValue

    /// The maximum length in bytes; tokens of common login servers have 700 to 2,000.
    package static let longest = 8192
    private static let longestKeyID = 256
    private static let limits: JSONReader.Limits = {
        var limits = JSONReader.Limits()
        limits.bytes = longest
        limits.depth = 8
        limits.values = 500
        return limits
    }()

    package init(_ text: ByteString) throws(Fault) {
        guard text.count <= Self.longest else { throw .tooLong }
        let parts = text.parts(separatedBy: UInt8(ascii: "."))
        guard parts.count == 3, let signature = Self.bytes(parts[2]), !signature.isEmpty else { throw .form }
        let header = try Self.object(parts[0])
        claims = try Self.object(parts[1])
        guard header["crit"] == nil else { throw .extensions }
        if let type = header["typ"] {
            guard let name = type.string?.lowercased() else { throw .value }
            guard ["jwt", "at+jwt", "application/jwt", "application/at+jwt"].contains(name) else { throw .extensions }
        }
        guard let algorithm = header["alg"]?.string else { throw .value }
        self.algorithm = algorithm
        keyID = try Self.text("kid", of: header)
        guard (keyID?.utf8.count ?? 0) <= Self.longestKeyID else { throw .value }
        issuer = try Self.text("iss", of: claims)
        switch claims["aud"] {
        case nil: audiences = []
        case .string(let one)?: audiences = [one]
        case .array(let all)?:
            var texts: [String] = []
            for value in all {
                guard let text = value.string else { throw .value }
                texts.append(text)
            }
            audiences = texts
        case .null?, .bool?, .number?, .object?: throw .value
        }
        expiry = try Self.date("exp", of: claims)
        start = try Self.date("nbf", of: claims)
        self.signature = signature
        signed = text[0..<parts[0].count + 1 + parts[1].count].array
    }

    /// The claim with the given name, if it exists and is a text.
    package func claim(_ name: String) -> String? { claims[name]?.string }

    private static func bytes(_ part: ByteString) -> [UInt8]? { part.withSpan { Base64.url.decode($0) } }

    private static func object(_ part: ByteString) throws(Fault) -> JSONValue {
        guard let bytes = bytes(part) else { throw .form }
        guard let value = try? JSONValue(bytes, limits: limits), case .object = value else { throw .json }
        return value
    }

    private static func text(_ name: String, of object: JSONValue) throws(Fault) -> String? {
        guard let value = object[name] else { return nil }
        guard let text = value.string else { throw .value }
        return text
    }

    /// Reads a date in Unix seconds without its fraction (RFC 7519 section 2).
    private static func date(_ name: String, of object: JSONValue) throws(Fault) -> Int64? {
        guard let value = object[name] else { return nil }
        guard case .number(let text) = value, let number = Double(text), abs(number) < 1e15 else { throw .value }
        return Int64(number)
    }
}
