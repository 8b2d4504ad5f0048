import Bytes
import Crypto
import Settings
import Timekeeping

/// The reason why a file has no usable secret, without the secret.
package struct EventSecretError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
}

/// The secrets with which requests to the receiver are signed, in the form of Standard Webhooks.
package struct EventSecrets: Hashable, Sendable {
    private let keys: [[UInt8]]

    /// The maximum size of a file with a secret in bytes.
    private static let longestFile = 1024
    /// The lengths of a key in bytes that Standard Webhooks allows.
    private static let lengths = 24...64
    /// The text before the base64 text of a secret.
    private static let prefix = "whsec_"

    /// Reads one secret from each file.
    package init(files: [String]) throws(EventSecretError) {
        var keys: [[UInt8]] = []
        for file in files { keys.append(try Self.key(at: file)) }
        self.keys = keys
    }

    /// Reads a file with one secret: `whsec_` and the base64 text of 24 to 64 random bytes. The error never contains the
    /// secret.
    package static func key(at file: String) throws(EventSecretError) -> [UInt8] {
        let bytes: [UInt8]
        do throws(SettingsError) {
            bytes = try SettingsFile.bytes(at: file, limit: longestFile)
        } catch {
            throw EventSecretError(description: error.description)
        }
        let text = String(decoding: bytes, as: UTF8.self).trimmed
        guard text.hasPrefix(prefix), let key = Base64.standard.decode(Array(text.dropFirst(prefix.count).utf8)),
            lengths.contains(key.count)
        else {
            throw EventSecretError(
                description:
                    "\(file): expected whsec_ and the base64 text of 24 to 64 random bytes: echo \"whsec_$(openssl rand -base64 32)\""
            )
        }
        return key
    }

    /// The value of the header field `webhook-signature`: one signature for each secret.
    func signatures(of body: [UInt8], id: String, at date: UnixTime) throws(CryptoError) -> String {
        let signed = Array("\(id).\(date.seconds).".utf8) + body
        var texts: [String] = []
        for key in keys {
            var mac = try HMACKey(key.span)
            texts.append("v1," + String(decoding: Base64.standard.encode(mac.code(for: signed)), as: UTF8.self))
        }
        return texts.joined(separator: " ")
    }
}

extension String {
    /// The text without blanks and line ends at both sides.
    fileprivate var trimmed: String {
        let start = drop { $0.isWhitespace }
        return String(start.reversed().drop { $0.isWhitespace }.reversed())
    }
}
