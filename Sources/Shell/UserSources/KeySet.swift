import Bytes
import Crypto
import JSON
import Registration

/// Reads the public keys of an issuer of bearer tokens, from a JSON Web Key Set (RFC 7517) or from PEM.
enum KeySet {
    /// The maximum size of a key set in bytes.
    static let longest = 256 << 10
    private static let mostKeys = 64
    private static let longestID = 256

    private static let limits: JSONReader.Limits = {
        var limits = JSONReader.Limits()
        limits.bytes = longest
        limits.depth = 8
        limits.values = 5000
        return limits
    }()

    /// Reads the public keys that can check signatures of bearer tokens. Keys for other purposes or other algorithms
    /// are omitted.
    ///
    /// - Throws: an error with the reason, if no key of the set can be used.
    static func keys(in bytes: [UInt8]) throws(UserFault) -> [BearerKey] {
        let start = bytes.first { $0 > UInt8(ascii: " ") }
        return start == UInt8(ascii: "{") ? try keys(inSet: bytes) : try keys(inPEM: bytes)
    }

    private static func keys(inPEM bytes: [UInt8]) throws(UserFault) -> [BearerKey] {
        do throws(CryptoError) {
            return try SigningKey.keys(in: bytes).map { BearerKey($0, id: nil) }
        } catch {
            throw UserFault(
                "no public key can be read: \(error.description)",
                cure: "Write RSA keys of 2048 bits or more, or keys on P-256, as -----BEGIN PUBLIC KEY-----.")
        }
    }

    private static func keys(inSet bytes: [UInt8]) throws(UserFault) -> [BearerKey] {
        guard let set = try? JSONValue(bytes, limits: limits), let members = set["keys"]?.array else {
            throw UserFault("it is no JSON Web Key Set", cure: "The set is a JSON object with the array keys.")
        }
        let keys = members.lazy.compactMap(key).prefix(mostKeys)
        guard !keys.isEmpty else {
            throw UserFault(
                "the key set has no key for RS256 or ES256",
                cure: "Let the issuer sign with RS256 (2048 bits or more) or ES256.")
        }
        return Array(keys)
    }

    private static func key(_ value: JSONValue) -> BearerKey? {
        guard value["use"]?.string ?? "sig" == "sig",
            value["key_ops"]?.array?.contains(.string("verify")) ?? true
        else { return nil }
        let id = value["kid"]?.string
        guard (id?.utf8.count ?? 0) <= longestID, let key = try? signingKey(value) else { return nil }
        if let algorithm = value["alg"]?.string, algorithm != key.algorithm.name { return nil }
        return BearerKey(key, id: id.map { ByteString($0) })
    }

    private static func signingKey(_ value: JSONValue) throws(CryptoError) -> SigningKey? {
        func number(_ name: String) -> [UInt8]? { value[name]?.string.flatMap { Base64.url.decode(Array($0.utf8)) } }
        switch value["kty"]?.string {
        case "RSA":
            guard let modulus = number("n"), let exponent = number("e") else { return nil }
            return try SigningKey(modulus: modulus, exponent: exponent)
        case "EC":
            guard value["crv"]?.string == "P-256", let x = number("x"), let y = number("y") else { return nil }
            return try SigningKey(x: x, y: y)
        default: return nil
        }
    }
}

extension BearerKey {
    fileprivate init(_ key: SigningKey, id: ByteString?) {
        self.init(id: id, algorithm: key.algorithm == .rs256 ? .rs256 : .es256, print: ByteString(key.digest)) {
            key.isValid($0, for: $1)
        }
    }

    /// The algorithm and the name of the key for operators, such as `RS256 key 2026-01`.
    package var words: String {
        // Characters other than printable ASCII become `?`, because key names come from a server and are shown on
        // terminals.
        let name = id.map { String(decoding: $0.array.map { 0x21...0x7e ~= $0 ? $0 : 0x3f }, as: UTF8.self) }
        return name.map { "\(algorithm.rawValue) key \($0)" } ?? "\(algorithm.rawValue) key without a name"
    }
}
